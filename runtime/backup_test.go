package runtime

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// served runs a whole node with its HTTP API until stop is called, which a test that does not call it has called.
func served(t *testing.T, dir string, fns ...functions.Function) (node *client.Client, stop func()) {
	t.Helper()
	r, err := New(Config{DataDir: dir, HTTP: "127.0.0.1:0", Logger: testLog(), Getenv: func(string) string { return "" }}, fns...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		t.Helper()
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-r.Ready():
	case err := <-done:
		stopped = true
		t.Fatalf("run: %v", err)
	}
	if node, err = client.New("http://"+r.HTTPAddr(), ""); err != nil {
		t.Fatal(err)
	}
	return node, stop
}

// parked waits until a function has so many dead letters.
func parked(t *testing.T, node *client.Client, n int) {
	t.Helper()
	for ctx := t.Context(); ; {
		list, err := node.DeadLetters(ctx, client.DeadLetterQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == n {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("got %d dead letters, want %d", len(list), n)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestANodeIsBackedUpRestoredAndServed goes the whole way that an operator goes, by the API and the commands' own functions.
func TestANodeIsBackedUpRestoredAndServed(t *testing.T) {
	parks := functions.Function{
		Name: "f", Types: []string{"t"}, Start: functions.FromBeginning,
		Handle: func(context.Context, functions.Event) error { return functions.Park(errNo) },
	}
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	node, stop := served(t, first, parks)
	for _, id := range []string{"1", "2"} {
		if _, err := node.Send(t.Context(), newEvent(id)); err != nil {
			t.Fatal(err)
		}
	}
	parked(t, node, 2)
	path := filepath.Join(t.TempDir(), "b.tar")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(node.WriteBackup(t.Context(), out), out.Close()); err != nil {
		t.Fatal(err)
	}
	stop()
	restored, err := restore(path, second)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(restored.Streams, func(s client.BackupStream) bool { return s.Name == streams.EventsStream })
	if at < 0 || restored.Streams[at].Messages != 2 || !slices.Equal(restored.Functions, []string{"f"}) {
		t.Errorf("got %+v, want two events and the function f", restored)
	}
	if _, err := restore(path, second); problemCode(err) != client.Refused {
		t.Errorf("a second time: got %v, want a refusal", err)
	}
	// The restored stream is the one that the function read: its start is not refused, and its dead letters are still its own.
	node, stop = served(t, second, parks)
	parked(t, node, 2)
	account, err := node.Account(t.Context())
	if err != nil || !account.Holds || account.Functions[0].Parked != 2 {
		t.Errorf("got %+v, %v, want both events parked in the restored node", account, err)
	}
	found, err := node.Doctor(t.Context())
	if err != nil || !found.OK {
		t.Errorf("got %+v, %v, want nothing wrong with the restored node", found, err)
	}
	for _, c := range found.Checks {
		if c.Status == client.DoctorWarn && !slices.Contains([]string{"owners", "access", "disk"}, c.Check) {
			t.Errorf("got %+v, want no such warning", c)
		}
	}
	// While it runs its directory can be looked at, and is seen to be held.
	offline, err := inspect(second)
	if err != nil || !offline.OK || offline.Checks[0].Check != "lock" || offline.Checks[0].Status != client.DoctorWarn {
		t.Errorf("got %+v, %v, want a directory that a node holds", offline, err)
	}
	stop()
}

func problemCode(err error) client.Code {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return p.Code
	}
	return ""
}

// TestDoctorSeesWhatANodeShows breaks a running node in several ways.
func TestDoctorSeesWhatANodeShows(t *testing.T) {
	ordered(t, functions.Function{}, parkOnce("a1"), func(t *testing.T, _ *world, l *life) {
		l.sendKeyed("a1", "a2")
		l.settle("f")
		facts, err := l.host.doctorFacts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f := facts.Functions[0]; f.Parked != 1 || f.Held != 1 || !f.Hosted || f.Patience.RidesOut < 10*time.Minute || len(facts.Drift)+len(facts.Doubles) > 0 {
			t.Errorf("got %+v, want one parked, one held and nothing wrong", facts)
		}
		// A copy of the dead letter in HELD, and dead letters of a function that is gone.
		letter := l.letters("f")["a1"]
		_, ref, _ := streams.ParseSubject(letter.Subject)
		c := streams.ReadCopy(letter.Header, letter.Data)
		for place, ref := range map[streams.Place]streams.Ref{
			streams.InHeld:        ref,
			streams.InDeadLetters: {Function: "old", Lane: ref.Lane, Sequence: 1},
		} {
			if _, err := l.store.Place(t.Context(), place, ref, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.store.Declare(t.Context(), streams.Declared{Name: "old", Stream: streams.EventsStream}); err != nil {
			t.Fatal(err)
		}
		held, err := l.store.JetStream().Stream(t.Context(), streams.HeldStream)
		if err != nil {
			t.Fatal(err)
		}
		changed := held.CachedInfo().Config
		changed.MaxAge = time.Hour
		if _, err := l.store.JetStream().UpdateStream(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		facts, err = l.host.doctorFacts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(facts.Doubles) != 1 || facts.Doubles[0].ID != "f/1" {
			t.Errorf("got doubles %+v, want f/1", facts.Doubles)
		}
		if len(facts.Functions) != 2 || facts.Functions[1].Hosted || facts.Functions[1].Parked != 1 {
			t.Errorf("got functions %+v, want one dead letter of old", facts.Functions)
		}
		if len(facts.Drift) != 1 || facts.Drift[0].What != "stream SIDING_HELD" || facts.Drift[0].Field != "max age" {
			t.Errorf("got drift %+v, want that what is held would be dropped", facts.Drift)
		}
	})
}
