package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/digest"
	"github.com/siding-dev/siding/streams"
)

// tellFrom runs the notifier of a life, and its webhook if there is one, until stop is called.
func (l *life) tellFrom(hook *webhook) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.host.notify(ctx, 0, hook); err != nil {
			l.w.t.Errorf("notify: %v", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// notices reads all that stands in SIDING_OPS.
func (l *life) notices() (all []streams.Notice) {
	l.w.t.Helper()
	for next := uint64(1); ; {
		m, err := l.store.Next(context.Background(), streams.OpsStream, next, "siding.ops.>")
		if errors.Is(err, streams.ErrNotFound) {
			return all
		}
		if err != nil {
			l.w.t.Fatalf("notices: %v", err)
		}
		n, ok := streams.ReadNotice(m.Subject, m.Header, m.Data)
		if !ok {
			l.w.t.Fatalf("got %s with %q, want a notice", m.Subject, m.Data)
		}
		all, next = append(all, n), m.Sequence+1
	}
}

// digests are the notices of that kind.
func (l *life) digests() (all []digest.Digest) {
	l.w.t.Helper()
	for _, n := range l.notices() {
		var d digest.Digest
		if n.Kind != noticeDigest {
			continue
		}
		if err := json.Unmarshal(n.Data, &d); err != nil {
			l.w.t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// parkAll is a life with a function that parks every event: those of one source for one reason, all others for another one.
func parkAll(w *world) *life {
	f := w.function(functions.Function{OrderBy: functions.Unordered}, func() bool { return true }, func(ctx context.Context, id string, a functions.Attempt) error {
		if a.Cycle > 0 && id == "redeemed" {
			return nil
		}
		if functions.EventFrom(ctx).Source() == "//broker.example/portal" {
			return functions.Park(errors.New("date of loss is missing"))
		}
		return functions.Park(fmt.Errorf("policy %q not found in %s", id, time.Duration(len(id))*time.Second))
	})
	return w.start(testTiming(), []functions.Function{f})
}

func (l *life) sendFrom(source string, ids ...string) {
	l.w.t.Helper()
	for _, id := range ids {
		e := newEvent(id)
		e.SetSource(source)
		l.sendEvent(e)
	}
}

func numbered(from, to int) (ids []string) {
	for i := from; i <= to; i++ {
		ids = append(ids, fmt.Sprint(i))
	}
	return ids
}

func TestDigestTellsOnceWhatWasParkedAndNothingInTheNextHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := parkAll(newWorld(t))
		defer l.tellFrom(nil)()
		l.settle("f")
		begun := time.Now()
		l.sendFrom("//broker.example/portal", numbered(1, 37)...)
		l.sendFrom("//other.example", "a", "bb")
		l.settle("f")
		time.Sleep(time.Until(begun.Add(59 * time.Minute)))
		if got := l.notices(); len(got) != 0 {
			t.Fatalf("got %d notices before the hour is over, want none", len(got))
		}
		time.Sleep(2 * time.Minute)
		got := l.digests()
		if len(got) != 1 {
			t.Fatalf("got %d digests, want one", len(got))
		}
		want, err := os.ReadFile("testdata/digest.txt")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(got[0].Text, digest.At(begun, got[0].Until), "HH:MM UTC")
		if diff := cmp.Diff(strings.TrimSpace(string(want)), text); diff != "" {
			t.Errorf("text (-want +got):\n%s", diff)
		}
		if got[0].Parked != 39 || got[0].StillParked != 39 {
			t.Errorf("got %d parked, %d still, want 39", got[0].Parked, got[0].StillParked)
		}
		time.Sleep(3 * time.Hour)
		if got := l.notices(); len(got) != 1 {
			t.Errorf("got %d notices after quiet hours, want the one of before", len(got))
		}
		l.sendFrom("//other.example", "c")
		l.settle("f")
		time.Sleep(61 * time.Minute)
		if got := l.digests(); len(got) != 2 || got[1].Parked != 1 {
			t.Errorf("got %+v, want a second digest of one event", got)
		}
	})
}

// TestDigestCountsWhatWasDecidedMeanwhile: it says how many were parked, and how many of them still are. What is parked again counts as new.
func TestDigestCountsWhatWasDecidedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := parkAll(newWorld(t))
		defer l.tellFrom(nil)()
		l.settle("f")
		l.sendFrom("/s", "discarded", "redeemed", "again", "stays")
		l.settle("f")
		for i, action := range []string{client.Discard, client.Redrive, client.Redrive} {
			if _, err := l.host.decide(t.Context(), client.Decision{Function: "f", Sequence: uint64(i + 1), Action: action, By: "ana", Reason: "r"}); err != nil {
				t.Fatal(err)
			}
		}
		l.settle("f")
		time.Sleep(61 * time.Minute)
		got := l.digests()
		if len(got) != 1 || got[0].Parked != 5 || got[0].StillParked != 2 || len(got[0].Groups) != 1 || got[0].Groups[0].StillParked != 2 {
			t.Fatalf("got %+v, want one digest with 5 parked, 2 of them still", got)
		}
		if want := "f: 5 parked since"; !strings.HasPrefix(got[0].Text, want) || !strings.Contains(got[0].Text, ", 2 of them still parked, all from /s,") {
			t.Errorf("got %s", got[0].Text)
		}
	})
}

// TestWhatStopsIsToldAtOnce: a pause that only who looked could see was restatedev/restate#5079.
func TestWhatStopsIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := parkAll(newWorld(t))
		defer l.tellFrom(nil)()
		l.settle("f")
		now := time.Now().UTC()
		entries := []streams.AuditEntry{
			{Action: "suspended", Function: "f", By: "owner", At: now, Reason: "nothing succeeds", Detail: map[string]string{
				"cause": "outage", "outage": "o-1", "evidence": "10 events of 3 sources", "since": now.Add(-time.Minute).Format(time.RFC3339Nano), "more": "x"}},
			{Action: "held", Function: "f", Sequence: 3, At: now},
			{Action: "gave-up", Function: "gone", By: "owner", At: now.Add(1), Detail: map[string]string{"cause": "outage"}},
			{Action: "resumed", Function: "f", By: "ana", At: now.Add(2)},
			{Action: "parked", Function: "f", Sequence: 9, At: now.Add(3), Reason: "stuck", Detail: map[string]string{"class": "timeout", "why": "handler did not return"}},
		}
		for _, e := range entries {
			if err := l.store.Audit(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if err := l.store.Audit(t.Context(), e); err != nil { // as a plan that is repeated does
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if elapsed := time.Since(now); elapsed > 0 {
			t.Errorf("got them told after %s, want at once", elapsed)
		}
		kinds := []string{}
		var first toldNow
		for i, n := range l.notices() {
			kinds = append(kinds, n.Kind+" "+n.Function)
			if i == 0 {
				if err := json.Unmarshal(n.Data, &first); err != nil {
					t.Fatal(err)
				}
			}
		}
		if diff := cmp.Diff([]string{"suspended f", "gave-up gone", "resumed f", "stuck f"}, kinds); diff != "" {
			t.Errorf("notices (-want +got):\n%s", diff)
		}
		want := toldNow{
			Function: "f", Since: now.Add(-time.Minute), Cause: "outage", Outage: "o-1", Evidence: "10 events of 3 sources", Reason: "nothing succeeds", By: "owner",
			Detail: map[string]string{"more": "x"},
			Text:   "f is suspended since " + digest.At(now.Add(-time.Minute), now) + ", because nothing succeeds; seen were 10 events of 3 sources",
		}
		if diff := cmp.Diff(want, first, cmp.AllowUnexported(toldNow{})); diff != "" {
			t.Errorf("suspended (-want +got):\n%s", diff)
		}
		time.Sleep(61 * time.Minute)
		if got := l.digests(); len(got) != 1 || got[0].Parked != 1 {
			t.Errorf("got %+v, want the stuck one in the digest too", got)
		}
	})
}

// TestARestartTellsNothingTwiceAndNothingNever: what was parked before a stop is told after it, an interval after it was parked.
func TestARestartTellsNothingTwiceAndNothingNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		again := func(send ...string) (l *life, stop func()) {
			l = parkAll(w)
			quit := l.tellFrom(nil)
			l.settle("f")
			l.sendFrom("/s", send...)
			l.settle("f")
			return l, func() { quit(); l.end() }
		}
		_, stop := again("1", "2")
		begun := time.Now()
		time.Sleep(30 * time.Minute)
		stop()
		l, stop := again("3")
		time.Sleep(time.Until(begun.Add(59 * time.Minute)))
		if got := l.digests(); len(got) != 0 {
			t.Errorf("got %+v before the interval is over, want none", got)
		}
		time.Sleep(2 * time.Minute)
		if got := l.digests(); len(got) != 1 || got[0].Parked != 3 {
			t.Errorf("got %+v, want one digest of 3", got)
		}
		stop()
		l, stop = again()
		time.Sleep(5 * time.Hour)
		if got := l.digests(); len(got) != 1 {
			t.Errorf("got %d digests after a restart, want one", len(got))
		}
		stop()
	})
}

func TestHostileErrorsAreHarmlessAndNoDataIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const marker = "MARKER-of-the-data"
		w := newWorld(t)
		texts := map[string]string{
			"control": "\x1b[2J\x00\r\nforged line", "large": strings.Repeat("é very long ", 1<<17), "invalid": "\xff\xfe\x80" + strings.Repeat("\x80", 10_000),
			"quotes": `got "` + marker + `", want '1'`, "json": `{"text":"forged","parked":99}`, "empty": "", "cut": `got "` + strings.Repeat(marker, 1000),
		}
		f := w.function(functions.Function{OrderBy: functions.Unordered}, func() bool { return true }, func(_ context.Context, id string, _ functions.Attempt) error {
			return functions.Park(errors.New(texts[id]))
		})
		typed := w.function(functions.Function{Name: "typed", Types: []string{"typed"}}, func() bool { return true }, func(ctx context.Context, _ string, _ functions.Attempt) error {
			var into struct{ Data int }
			return functions.Undecodable(json.Unmarshal(functions.EventFrom(ctx).Data(), &into))
		})
		l := w.start(testTiming(), []functions.Function{f, typed})
		defer l.tellFrom(nil)()
		l.settle("f")
		for id := range texts {
			e := newEvent(id)
			if err := e.SetData("text/plain", marker); err != nil {
				t.Fatal(err)
			}
			l.sendEvent(e)
		}
		e := newEvent("typed")
		e.SetType("typed")
		if err := e.SetData("application/json", map[string]string{"data": marker}); err != nil {
			t.Fatal(err)
		}
		l.sendEvent(e)
		l.settle("f")
		l.settle("typed")
		if err := l.store.Audit(t.Context(), streams.AuditEntry{Action: "suspended", Function: "f", At: time.Now(), Reason: texts["large"], Detail: map[string]string{
			"evidence": texts["invalid"], texts["control"]: texts["control"], "x": strings.Repeat("x", 300_000)}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Minute)
		told := l.notices()
		if len(told) != 2 {
			t.Fatalf("got %d notices, want the suspension and the digest", len(told))
		}
		for _, n := range told {
			if s := string(n.Data); strings.Contains(s, marker) || strings.Contains(s, `\u001b`) || strings.Contains(s, `\u0000`) || len(s) > 16<<10 {
				t.Errorf("%s: got %d bytes: %.2000s", n.Kind, len(s), s)
			}
		}
		if got := l.digests()[0]; got.Parked != len(texts)+1 || strings.Count(got.Text, "\n")+1 != len(got.Groups) {
			t.Errorf("got %d parked in %d groups, text\n%s", got.Parked, len(got.Groups), got.Text)
		}
		for next := uint64(1); ; {
			m, err := l.store.Next(t.Context(), streams.AuditStream, next, "siding.audit.>")
			if err != nil {
				break
			}
			if strings.Contains(string(m.Data), marker) {
				t.Errorf("the audit keeps data: %s", m.Data)
			}
			next = m.Sequence + 1
		}
	})
}

// TestAnotherWritersEntriesAreNotTold: a guest can make the server publish its answers at any subject.
func TestAnotherWritersEntriesAreNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := parkAll(newWorld(t))
		defer l.tellFrom(nil)()
		l.settle("f")
		for _, subject := range []string{"siding.audit.f", "siding.audit.a.b", "siding.audit._node"} {
			for _, data := range []string{"", "{}", `{"stream":"EVENTS","seq":7}`, `{"detail":{"cause":1}}`} {
				if _, err := l.store.JetStream().Publish(t.Context(), subject, []byte(data)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := l.store.JetStream().Publish(t.Context(), "siding.ops.f", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := l.store.Audit(t.Context(), streams.AuditEntry{Action: "resumed", Function: "f", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		m, err := l.store.Last(t.Context(), streams.OpsStream, "siding.ops.>")
		if err != nil || m.Sequence != 2 || m.Header.Get("ce-type") != "siding.resumed" {
			t.Errorf("got %d %v, %v, want the one notice behind what somebody else wrote", m.Sequence, m.Header, err)
		}
	})
}

// TestManyParkedEventsAreToldInOneDigest: it reads more than one request brings, and tells them from a burst in between.
func TestManyParkedEventsAreToldInOneDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := parkAll(newWorld(t))
		defer l.tellFrom(nil)()
		l.settle("f")
		now := time.Now()
		for i := range 3 * readAhead {
			if err := l.store.Audit(t.Context(), streams.AuditEntry{
				Action: "parked", Function: "other", Sequence: uint64(i + 1), At: now, Reason: "permanent",
				Detail: map[string]string{"class": "permanent", "error": fmt.Sprintf("no %d", i), "source": fmt.Sprint("/", i%2)},
			}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(61 * time.Minute)
		got := l.digests()
		if len(got) != 1 || got[0].Parked != 3*readAhead || len(got[0].Groups) != 1 || got[0].Groups[0].Group != digest.Fingerprint("permanent", "no 1") {
			t.Errorf("got %+v, want one group of %d", got, 3*readAhead)
		}
		if kinds := slices.Compact(l.kinds()); !slices.Equal(kinds, []string{noticeDigest}) {
			t.Errorf("got %q", kinds)
		}
	})
}

func (l *life) kinds() (kinds []string) {
	for _, n := range l.notices() {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

func TestTheAuditOfADeadLetterSaysFromWhomAndWhyWithoutWhatIsQuoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := parkAll(newWorld(t))
		l.sendFrom("//other.example", "P-7")
		l.settle("f")
		m, err := l.store.Last(t.Context(), streams.AuditStream, streams.AuditSubject("f"))
		if err != nil {
			t.Fatal(err)
		}
		a := streams.ReadAudit(m)
		delete(a.Detail, "trace_id")
		want := map[string]string{
			"class": "permanent", "source": "//other.example", "why": `policy "…" not found in #`, "group": digest.Fingerprint("permanent", `policy "P-9" not found in 1s`),
		}
		if diff := cmp.Diff(want, a.Detail); diff != "" {
			t.Errorf("detail (-want +got):\n%s", diff)
		}
	})
}
