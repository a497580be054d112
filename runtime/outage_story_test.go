package runtime

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// TestOutageInTheClaimsStory is the story that the demo tells, with a contract system that is away for ten minutes: 400 claims come in, 37 of them, all from
// one source, lack the date of loss. The outage parks none, the 37 are parked, and once they have their date all are handled in the order of their policies.
func TestOutageInTheClaimsStory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const claims, policies = 400, 79
		bad := func(i int) bool { return i%10 == 7 && i <= 370 }
		var away, back time.Time
		fn := w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}, forever,
			func(ctx context.Context, _ string, _ functions.Attempt) error {
				if !strings.Contains(string(functions.EventFrom(ctx).Data()), "lost_on") {
					return functions.Park(errors.New("the date of loss is missing"))
				}
				if now := time.Now(); now.After(away) && now.Before(back) {
					return functions.Unavailable(errAway) // as the demo says it: three are believed sooner than ten
				}
				return nil
			})
		l := w.start(testTiming(), []functions.Function{fn})
		<-l.host.started
		away = time.Now().Add(time.Minute)
		back = away.Add(10 * time.Minute)
		for i := 1; i <= claims; i++ {
			e := from(i, 5, policies)
			_ = e.SetData("application/json", map[string]string{"lost_on": "2026-11-28"})
			if bad(i) {
				e.SetSource("//broker7.example/portal")
				_ = e.SetData("application/json", map[string]string{})
			}
			l.sendEvent(e)
			time.Sleep(600 * time.Millisecond)
		}
		time.Sleep(15 * time.Minute)
		a := l.settle("f")
		if a.Parked == 0 || a.Delivered+a.Parked+a.Held != claims {
			t.Errorf("got %+v, want the rest handled or held behind those without a date", a)
		}
		for a.Parked > 0 { // of one policy, the second one is parked when the first one has been corrected
			for id := range l.letters("f") {
				i, _ := strconv.Atoi(id)
				if !bad(i) {
					t.Fatalf("claim %d was parked, and has its date", i)
				}
				l.decideWith(client.Decision{Function: "f", Sequence: uint64(i), Action: client.Edit, Data: []byte(`{"lost_on":"2026-11-27"}`), By: "anna", Reason: "the broker's dates"})
			}
			a = l.settle("f")
		}
		if a.Delivered != claims {
			t.Errorf("got %+v, want all handled", a)
		}
		if counts := l.auditCounts("f"); counts["siding.suspended"] != 1 || counts["siding.resumed"] != 1 || counts["siding.parked"] != 37 {
			t.Errorf("got %v, want one suspension, one resumption and 37 dead letters", counts)
		}
		handled := map[int][]string{}
		for _, c := range w.calls("") {
			if id, _ := strconv.Atoi(c.event); c.err == nil {
				handled[id%policies] = append(handled[id%policies], c.event)
			}
		}
		for policy := range policies {
			var want []string
			for i := 1; i <= claims; i++ {
				if i%policies == policy {
					want = append(want, strconv.Itoa(i))
				}
			}
			if fmt.Sprint(handled[policy]) != fmt.Sprint(want) {
				t.Errorf("policy %d: got %v, want %v", policy, handled[policy], want)
			}
		}
	})
}
