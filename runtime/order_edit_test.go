package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// untilData parks an event until its data are what is wanted.
func untilData(id, data string) script {
	return func(ctx context.Context, got string, _ functions.Attempt) error {
		if e := functions.EventFrom(ctx); got == id && string(e.Data()) != data {
			return functions.Park(errNo)
		}
		return nil
	}
}

func edit(sequence uint64, data, by string) client.Decision {
	return client.Decision{Function: "f", Sequence: sequence, Action: client.Edit, Data: []byte(data), Source: "a letter", Reason: "it was wrong", By: by}
}

// TestAnEditedEventIsHandledOnceInItsPlace (Particular/ServicePulse#2424: the original and the edited copy were both sent): the handler gets the new
// data, once, before what is held behind it, and also over a restart. The original stands where it was, and the audit says who changed it.
func TestAnEditedEventIsHandledOnceInItsPlace(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{}, untilData("a1", `{"day": "2026-03-01"}`))
		l.sendKeyed("a1", "a2", "a3")
		l.settle("f")
		l.decideWith(edit(1, `{"day":"2026-02-30"}`, "Ada"))
		if a := l.settle("f"); a.Parked != 1 || a.Held != 2 {
			t.Fatalf("got %+v after an edit that does not help, want it parked again", a)
		}
		l.end()
		l = start(functions.Function{}, untilData("a1", `{"day": "2026-03-01"}`))
		l.decideWith(edit(1, `{"day": "2026-03-01"}`, "Bob"))
		l.settle("f")
		wantOrder(t, "attempted", w.began(), "a1", "a1", "a1", "a2", "a3")
		l.nothingPending()

		original, err := l.store.Get(t.Context(), streams.EventsStream, 1)
		if err != nil || string(original.Data) != `{"id":"a1"}` {
			t.Errorf("got the original as %s, %v", original.Data, err)
		}
		records, err := l.store.Records(t.Context(), "f", 1)
		if err != nil {
			t.Fatal(err)
		}
		var editors []string
		for _, r := range records {
			if r.Kind == streams.RecordEdited {
				editors = append(editors, r.By+" "+r.Reason)
			}
		}
		wantOrder(t, "edited by", editors, "Ada it was wrong", "Bob it was wrong")
		audit := l.auditData("edited")
		if len(audit) != 2 || !strings.Contains(audit[1], `"source":"a letter"`) || !strings.Contains(audit[1], `"original":"EVENTS/1"`) {
			t.Errorf("got audit entries %q, want two with the source of the data and the place of the original", audit)
		}
	})
}

// auditData is what the audit says about actions of a kind, as JSON.
func (l *life) auditData(action string) (entries []string) {
	l.w.t.Helper()
	for next := uint64(1); ; {
		m, err := l.store.Next(context.Background(), streams.AuditStream, next, streams.AuditSubject("f"))
		if errors.Is(err, streams.ErrNotFound) {
			return entries
		}
		if err != nil {
			l.w.t.Fatal(err)
		}
		if m.Header.Get("ce-type") == "siding."+action {
			entries = append(entries, string(m.Data))
		}
		next = m.Sequence + 1
	}
}

// TestASecondEditIsAConflictThatNamesTheFirst (Particular/ServiceControl#5122: it was dropped in silence), while the first waits to be applied and after
// that.
func TestASecondEditIsAConflictThatNamesTheFirst(t *testing.T) {
	ordered(t, functions.Function{}, untilData("a1", `{"by":"Ada"}`), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1")
		l.settle("f")
		cycle := 0
		first, second := edit(1, `{"by":"Ada"}`, "Ada"), edit(1, `{"by":"Bob"}`, "Bob")
		second.Cycle = &cycle
		answers := make(chan error, 2)
		for _, d := range []client.Decision{first, second} {
			go func() {
				_, err := l.host.decide(context.Background(), d)
				answers <- err
			}()
			time.Sleep(time.Nanosecond) // the first is under way
		}
		refused := 0
		for range 2 {
			if err := <-answers; err != nil {
				refused++
				if p, ok := errors.AsType[*client.Problem](err); !ok || p.Code != client.Conflict || !strings.Contains(p.Detail, "by Ada at 20") {
					t.Errorf("got %v, want a conflict that names the first and when", err)
				}
			}
		}
		if refused != 1 {
			t.Errorf("got %d of two edits refused, want 1", refused)
		}
		l.settle("f")
		_, err := l.host.decide(t.Context(), second)
		if p, ok := errors.AsType[*client.Problem](err); !ok || p.Code != client.Conflict || !strings.Contains(p.Detail, "it was edited by Ada at 20") {
			t.Errorf("got %v, want a conflict that names the first and when", err)
		}
		wantOrder(t, "attempted", w.began(), "a1", "a1")
	})
}

// TestAnEditThatCannotStandChangesNothing: neither through the API, nor where a decision comes another way.
func TestAnEditThatCannotStandChangesNothing(t *testing.T) {
	for name, data := range map[string]string{
		"no JSON": `{"a":`, "too large": `"` + strings.Repeat("x", 1<<20-100<<10) + `"`, "against the schema": `{"id":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			fn := functions.Function{Schema: []byte(`{"properties":{"id":{"type":"string"}}}`)}
			ordered(t, fn, parkOnce("a1"), func(t *testing.T, w *world, l *life) {
				l.sendKeyed("a1", "a2")
				before := l.settle("f")
				_, err := l.host.decide(t.Context(), edit(1, data, "Ada"))
				if p, known := problemOf(err); !known || !slices.Contains([]client.Code{client.Invalid, client.TooLarge, client.Refused}, p.Code) {
					t.Errorf("got %v, want it refused as invalid or too large", err)
				}
				l.state(1, streams.Decision{Action: streams.ActionEdit, Data: []byte(data)})
				if after := l.settle("f"); after.Parked != before.Parked || after.Held != before.Held {
					t.Errorf("got %+v, want as before: %+v", after, before)
				}
				if refused := l.auditData("refused"); len(refused) != 1 {
					t.Errorf("got refusals %q, want one", refused)
				}
				l.decideAbout("a1", client.Redrive)
				l.settle("f")
				wantOrder(t, "attempted", w.began(), "a1", "a1", "a2")
			})
		})
	}
}

// TestAnEditKeepsAnOriginalThatItsStreamHasLost: the dead letter was the last that had it.
func TestAnEditKeepsAnOriginalThatItsStreamHasLost(t *testing.T) {
	ordered(t, functions.Function{}, untilData("a1", `{}`), func(t *testing.T, w *world, l *life) {
		l.sendKeyed("a1")
		l.settle("f")
		if err := l.store.Delete(t.Context(), streams.EventsStream, 1); err != nil {
			t.Fatal(err)
		}
		l.decideWith(edit(1, `{}`, "Ada"))
		l.settle("f")
		wantOrder(t, "attempted", w.began(), "a1", "a1")
		if audit := l.auditData("edited"); len(audit) != 1 || !strings.Contains(audit[0], `"original_base64":"eyJpZCI6ImExIn0="`) {
			t.Errorf("got audit entries %q, want one with the original", audit)
		}
	})
}
