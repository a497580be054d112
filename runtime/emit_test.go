package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// follow makes an event that has no id yet and says what it follows from.
func follow(id string, n int) event.Event {
	e := event.New()
	e.SetSource("follow")
	e.SetType("followed")
	_ = e.SetData("application/json", map[string]string{"of": id, "n": strconv.Itoa(n)})
	return e
}

// emitTwo emits two events for each attempt, whatever it comes to.
func emitTwo(result script) script {
	return func(ctx context.Context, id string, a functions.Attempt) error {
		if err := functions.Emit(ctx, follow(id, 1)); err != nil {
			return err
		}
		err := result(ctx, id, a)
		return errors.Join(err, functions.Emit(ctx, follow(id, 2)))
	}
}

// emitted reads what EVENTS has of type followed: the numbers of each cause, in order.
func (l *life) emitted() map[string][]string {
	l.w.t.Helper()
	all := map[string][]string{}
	for next := uint64(1); ; {
		m, err := l.store.Next(context.Background(), streams.EventsStream, next, "events.followed")
		if errors.Is(err, streams.ErrNotFound) {
			return all
		}
		if err != nil {
			l.w.t.Fatalf("emitted: %v", err)
		}
		next = m.Sequence + 1
		e, err := streams.Decode(m.Header, m.Data)
		if err != nil {
			l.w.t.Fatalf("emitted: %v", err)
		}
		var data struct{ Of, N string }
		if err := e.DataAs(&data); err != nil {
			l.w.t.Fatalf("emitted: %v", err)
		}
		if cause := e.Extensions()["causationid"]; cause != data.Of {
			l.w.t.Errorf("got causationid %v, want %s", cause, data.Of)
		}
		all[data.Of] = append(all[data.Of], data.N)
	}
}

// wantEmitted checks that what some events emitted is there once and in order, and nothing else.
func (l *life) wantEmitted(where string, causes ...string) {
	l.w.t.Helper()
	got := l.emitted()
	for id, numbers := range got {
		if !slices.Contains(causes, id) || !slices.Equal(numbers, []string{"1", "2"}) {
			l.w.t.Errorf("%s: event %s: got %v emitted, want what %v emitted, once", where, id, numbers, causes)
		}
	}
	if len(got) != len(causes) {
		l.w.t.Errorf("%s: got the emitted events of %d, want those of %v", where, len(got), causes)
	}
	if left, err := l.store.Subjects(context.Background(), streams.OutboxStream, ">"); err != nil || len(left) > 0 {
		l.w.t.Errorf("%s: got %v, %v left in the outbox, want nothing", where, left, err)
	}
}

// TestEmitAppearsWithTheSuccessOfItsAttempt: on the hot path, after retries and after a redrive; what is discarded, parked or still tried emits nothing.
func TestEmitAppearsWithTheSuccessOfItsAttempt(t *testing.T) {
	lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
		fn := functions.Function{Retry: thrice()}
		l := start(fn, emitTwo(scripted))
		l.sendIDs("done-1", "twice-1", "park-1", "reject-1", "discard-1", "never-1")
		time.Sleep(30 * time.Second)
		l.wantEmitted("at first", "done-1")
		time.Sleep(time.Hour)
		l.wantEmitted("after retries", "done-1", "twice-1")
		l.decideAbout("park-1", client.Redrive)
		if a := l.settle("f"); a.Delivered != 3 || a.Parked != 2 || a.Discarded != 1 {
			t.Errorf("got %+v, want 3 delivered, 2 parked and 1 discarded", a)
		}
		l.wantEmitted("after a redrive", "done-1", "twice-1", "park-1")
		l.end()
		w.loseLedger()
		l = start(fn, emitTwo(scripted))
		time.Sleep(time.Minute)
		l.settle("f")
		l.wantEmitted("with the ledger lost", "done-1", "twice-1", "park-1")
		if n := len(w.calls("done-1")); n != 1 {
			t.Errorf("got %d attempts of an event whose end is recorded, want 1", n)
		}
	})
}

// TestEmitIsRefusedAsAcceptingIs: what could not be accepted parks its cause and emits nothing.
func TestEmitIsRefusedAsAcceptingIs(t *testing.T) {
	lives(t, func(t *testing.T, _ *world, start func(functions.Function, script) *life) {
		l := start(functions.Function{}, func(ctx context.Context, id string, _ functions.Attempt) error {
			e := follow(id, 1)
			switch id {
			case "no-source":
				e = event.New()
				e.SetType("followed")
			case "large":
				_ = e.SetData("text/plain", make([]byte, functions.MaxEmittedSize))
			}
			return functions.Emit(ctx, e)
		})
		l.sendIDs("no-source", "large")
		if a := l.settle("f"); a.Parked != 2 {
			t.Errorf("got %+v, want both parked", a)
		}
		l.wantEmitted("refused")
	})
}

// TestEmitKilledAtEveryPoint kills the process before and after each operation on the way of events that emit. Whatever has been written, each emitted
// event is there once exactly if its cause was delivered; also when the process comes back long after the server's window for duplicates.
func TestEmitKilledAtEveryPoint(t *testing.T) {
	for _, away := range []time.Duration{0, 5 * time.Hour} {
		t.Run(fmt.Sprintf("back after %s", away), func(t *testing.T) {
			t.Parallel()
			everyPoint(t, func(t *testing.T, at int) bool {
				w := newWorld(t)
				fn := func(alive func() bool) functions.Function {
					return w.function(functions.Function{Retry: functions.Retry{Attempts: 3, Backoff: functions.Delays(time.Second)}}, alive,
						emitTwo(func(ctx context.Context, id string, a functions.Attempt) error {
							if id == "2" && a.Number == 1 {
								return errNo
							}
							return parkOnce("3")(ctx, id, a)
						}))
				}
				hit, where := w.killed(at, fn, func(l *life, wait func(time.Duration)) {
					for id := 1; id <= 4; id++ {
						l.sendEvent(from(id, 1, 3)) // 4 is behind 1
					}
					wait(time.Minute)
					select {
					case <-l.host.started:
					default:
						return
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if letter, parked := l.letters("f")["3"]; parked {
						_, ref, _ := streams.ParseSubject(letter.Subject)
						_, _ = l.host.decide(ctx, client.Decision{Function: "f", Sequence: ref.Sequence, Action: client.Redrive, By: "test", Reason: "test"})
					}
					wait(time.Minute)
				})
				time.Sleep(away)
				l := w.start(testTiming(), []functions.Function{fn(forever)})
				<-l.host.started
				for id := 1; id <= 4; id++ {
					if away == 0 { // beyond the window the same event would be another one
						l.sendEvent(from(id, 1, 3))
					}
				}
				a := l.settle("f")
				delivered := l.deliveredOf()
				if int(a.Delivered) != len(delivered) {
					t.Errorf("killed at %s: got %+v, want %v delivered", where, a, delivered)
				}
				l.wantEmitted("killed at "+where, delivered...)
				if a.Parked == 1 {
					l.decideAbout("3", client.Redrive)
					l.settle("f")
					l.wantEmitted("killed at "+where+", redriven", append(delivered, "3")...)
				}
				return hit
			})
		})
	}
}

// deliveredOf lists the ids of the events that were delivered, by their records: every one that emitted something has one.
func (l *life) deliveredOf() (ids []string) {
	l.w.t.Helper()
	for next := uint64(1); ; {
		m, err := l.store.Next(context.Background(), streams.EventsStream, next, "events.t")
		if errors.Is(err, streams.ErrNotFound) {
			return ids
		}
		if err != nil {
			l.w.t.Fatal(err)
		}
		next = m.Sequence + 1
		last, ok, err := l.store.LastRecord(context.Background(), "f", m.Sequence)
		if err != nil {
			l.w.t.Fatal(err)
		}
		if ok && last.Kind == streams.RecordDelivered {
			ids = append(ids, m.Header.Get("ce-id"))
		}
	}
}

// TestEmitWaitsForRoomInEVENTS: a success whose events cannot be accepted is kept, also over a restart, and what comes later of its key waits.
func TestEmitWaitsForRoomInEVENTS(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run("restart "+strconv.FormatBool(restart), func(t *testing.T) {
			lives(t, func(t *testing.T, w *world, start func(functions.Function, script) *life) {
				room := make(chan struct{})
				s := emitTwo(func(context.Context, string, functions.Attempt) error { <-room; return nil })
				l := start(functions.Function{Timeout: time.Hour}, s)
				l.sendEvent(from(1, 1, 1))
				l.sendEvent(from(2, 1, 1))
				synctest.Wait()
				lift := l.limit(streams.EventsStream)
				close(room)
				time.Sleep(30 * time.Minute) // beyond the window for duplicates
				if got := l.emitted(); len(got) != 0 {
					t.Errorf("got %v in a full stream", got)
				}
				if n := len(w.calls("2")); n != 0 {
					t.Errorf("got %d attempts of the next event of the key, want it to wait", n)
				}
				if restart {
					l.end()
					l = start(functions.Function{Timeout: time.Hour}, s) // which gives the stream its limits back
				} else {
					lift()
				}
				if a := l.settle("f"); a.Delivered != 2 {
					t.Errorf("got %+v, want both delivered", a)
				}
				l.wantEmitted("with room again", "1", "2")
				if n := len(w.calls("1")); n != 1 {
					t.Errorf("got %d attempts, want one", n)
				}
			})
		})
	}
}

// TestEmitOfAFunctionThatIsNotHostedAnyMore: a kill between the final record and EVENTS, and then nobody hosts the function.
func TestEmitOfAFunctionThatIsNotHostedAnyMore(t *testing.T) {
	lives(t, func(t *testing.T, w *world, _ func(functions.Function, script) *life) {
		m := newMortal(w, 0, true)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, m.alive, emitTwo(good))}, streams.WithGate(m.dies("emit", 1)))
		outside := &life{w: w, store: l.store.Ungated()}
		<-l.host.started
		outside.sendIDs("1")
		<-m.killed
		l.bury(m)
		l = w.start(testTiming(), nil)
		<-l.host.started
		time.Sleep(2 * time.Minute)
		l.wantEmitted("not hosted", "1")
	})
}

// TestEmitGoesOnInTheTrace: what follows from an event is in its trace, below the attempt.
func TestEmitGoesOnInTheTrace(t *testing.T) {
	lives(t, func(t *testing.T, w *world, _ func(functions.Function, script) *life) {
		rec := newRecording()
		l := w.startTraced(rec.tracer, []functions.Function{w.function(functions.Function{}, forever, emitTwo(good))})
		<-l.host.started
		l.sendIDs("1")
		l.settle("f")
		m, err := l.store.Next(t.Context(), streams.EventsStream, 1, "events.followed")
		if err != nil {
			t.Fatal(err)
		}
		spans := rec.exporter.GetSpans()
		at := slices.IndexFunc(spans, func(s tracetest.SpanStub) bool { return s.Name == "process f" })
		if at < 0 {
			t.Fatalf("got %v, want the attempt among them", spans)
		}
		attempt := spans[at].SpanContext
		for name, got := range map[string]string{"attribute": m.Header.Get("ce-traceparent"), "header": m.Header.Get("traceparent")} {
			if want := fmt.Sprintf("00-%s-%s-01", attempt.TraceID(), attempt.SpanID()); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	})
}

// TestEmitIsCompletedBeforeItsCauseIsSettled: a start whose EVENTS does not answer goes on with other events, and settles nothing before what it emitted
// is there.
func TestEmitIsCompletedBeforeItsCauseIsSettled(t *testing.T) {
	lives(t, func(t *testing.T, w *world, _ func(functions.Function, script) *life) {
		m := newMortal(w, 0, true)
		l := w.start(testTiming(), []functions.Function{w.function(functions.Function{}, m.alive, emitTwo(good))}, streams.WithGate(m.dies("emit", 1)))
		outside := &life{w: w, store: l.store.Ungated()}
		<-l.host.started
		outside.sendEvent(from(1, 1, 2))
		<-m.killed
		l.bury(m)
		answers := make(chan struct{})
		l = w.start(testTiming(), []functions.Function{w.function(functions.Function{}, forever, good)}, streams.WithGate(func(op string) {
			if op == "emit" {
				<-answers
			}
		}))
		time.Sleep(time.Minute)
		select {
		case <-l.host.started:
		default:
			t.Error("got no start, want it not to wait")
		}
		(&life{w: w, store: l.store.Ungated()}).sendEvent(from(2, 1, 2))
		time.Sleep(time.Minute)
		if ledger := l.host.owner("f").ledger; ledger.Settled(1) || !ledger.Settled(2) {
			t.Errorf("got %v and %v settled, want the other event alone", ledger.Settled(1), ledger.Settled(2))
		}
		close(answers)
		l.settle("f")
		l.wantEmitted("in the end", "1")
		if n := len(w.calls("1")); n != 1 {
			t.Errorf("got %d attempts, want one", n)
		}
	})
}
