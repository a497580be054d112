package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
)

// Each filter is asked for what is there and for what is not, by a list, a tail and an export.
func TestEveryFilterSelectsInListTailAndExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{
			w.function(functions.Function{Types: []string{"t", "u"}}, always, func(context.Context, string, functions.Attempt) error { return functions.Park(errNo) }),
			w.function(functions.Function{Name: "g", Types: []string{"u"}, Timeout: time.Second, Retry: functions.Retry{Attempts: 1}}, always,
				func(ctx context.Context, _ string, _ functions.Attempt) error {
					<-ctx.Done()
					return ctx.Err()
				}),
		})
		<-l.host.started
		e := newEvent("1")
		e.SetExtension("partitionkey", "k")
		l.sendEvent(e)
		time.Sleep(time.Hour)
		e = newEvent("2")
		e.SetType("u")
		e.SetSource("other")
		l.sendEvent(e)
		l.settle("f")
		l.settle("g") // f/1 and f/2 permanent, g/2 exhausted by a timeout
		r := l.runtime()
		for _, c := range []struct {
			name string
			q    deadLetterQuery
			want int
		}{
			{"all", deadLetterQuery{}, 3},
			{"function", deadLetterQuery{Function: "f"}, 2},
			{"cause", deadLetterQuery{Cause: "exhausted"}, 1},
			{"no such cause", deadLetterQuery{Cause: "stuck"}, 0},
			{"class", deadLetterQuery{Class: "timeout"}, 1},
			{"no such class", deadLetterQuery{Class: "panic"}, 0},
			{"source", deadLetterQuery{Source: "other"}, 2},
			{"no such source", deadLetterQuery{Source: "oth"}, 0},
			{"type", deadLetterQuery{Type: "t"}, 1},
			{"no such type", deadLetterQuery{Type: "v"}, 0},
			{"key", deadLetterQuery{Key: "k"}, 1},
			{"no such key", deadLetterQuery{Key: "l"}, 0},
			{"since", deadLetterQuery{Since: time.Now().Add(-30 * time.Minute)}, 2},
			{"since just now", deadLetterQuery{Since: time.Now().Add(time.Minute)}, 0},
			{"two of them", deadLetterQuery{Source: "other", Function: "f"}, 1},
		} {
			q := c.q
			q.Limit = client.MaxLimit
			list, err := r.deadLetters(t.Context(), q)
			if err != nil || len(list) != c.want {
				t.Errorf("%s: list: got %d and %v, want %d", c.name, len(list), err, c.want)
			}
			tailed, exported := 0, 0
			ctx, cancel := context.WithTimeout(t.Context(), 4*tailPoll+tailPoll/2) // it ends while the tail pauses
			if err := r.tail(ctx, c.q, false, func(client.DeadLetter) error { tailed++; return nil }); err != nil || tailed != c.want {
				t.Errorf("%s: tail: got %d and %v, want %d", c.name, tailed, err, c.want)
			}
			cancel()
			if err := r.export(t.Context(), c.q, func(client.Exported) error { exported++; return nil }); err != nil || exported != c.want {
				t.Errorf("%s: export: got %d and %v, want %d", c.name, exported, err, c.want)
			}
		}
		for _, of := range []string{"deadLetters", "export"} {
			_, err := r.deadLetters(t.Context(), deadLetterQuery{Function: "nobody", Limit: 1})
			if of == "export" {
				err = r.export(t.Context(), deadLetterQuery{Function: "nobody"}, func(client.Exported) error { return nil })
			}
			wantRefusal(t, err, client.NotFound, "function nobody")
		}
	})
}
