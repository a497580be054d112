package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/lane"
	"github.com/siding-dev/siding/streams"
)

// fakeKeeper keeps lanes that a test has drawn up.
type fakeKeeper struct {
	views   []laneView
	tails   map[string][]uint64 // by lane
	asked   int                 // how often for all lanes
	resumed []string
}

func (k *fakeKeeper) laneViews(context.Context) ([]laneView, error) {
	k.asked++
	return slices.Clone(k.views), nil
}

func (k *fakeKeeper) find(token string) int {
	return slices.IndexFunc(k.views, func(v laneView) bool { return v.token == token })
}

func (k *fakeKeeper) laneView(_ context.Context, token string) (laneView, bool, error) {
	if i := k.find(token); i >= 0 {
		return k.views[i], true, nil
	}
	return laneView{}, false, nil
}

func (k *fakeKeeper) laneTail(_ context.Context, token string, above uint64, limit int) ([]uint64, int, error) {
	tail := slices.DeleteFunc(slices.Clone(k.tails[token]), func(seq uint64) bool { return seq <= above })
	return tail[:min(limit, len(tail))], len(tail), nil
}

func (k *fakeKeeper) pauseLane(_ context.Context, p streams.PausedLane) error {
	if i := k.find(p.Lane); i >= 0 {
		k.views[i].paused = &p
		return nil
	}
	k.views = append(k.views, laneView{token: p.Lane, key: p.Key, paused: &p})
	return nil
}

func (k *fakeKeeper) resumeLane(_ context.Context, token, reason, by string) (bool, error) {
	i := k.find(token)
	if i < 0 || k.views[i].paused == nil {
		return false, nil
	}
	k.resumed = append(k.resumed, token+" by "+by+": "+reason)
	k.views[i].paused = nil
	if k.views[i].events == 0 {
		k.views = slices.Delete(k.views, i, i+1)
	}
	return true, nil
}

// laneHost is a node that knows functions, of which only those with a keeper are hosted. Nobody runs there, so that what stands in its
// streams stays.
func laneHost(t *testing.T, keepers map[string]*fakeKeeper, orphans ...string) (*Runtime, *host) {
	t.Helper()
	l := newWorld(t).open()
	h := &host{store: l.store, keeper: func(function string) laneKeeper {
		if k := keepers[function]; k != nil {
			return k
		}
		return nil
	}}
	for name := range keepers {
		orphans = append(orphans, name)
	}
	for _, name := range orphans {
		if err := l.store.Declare(t.Context(), streams.Declared{Name: name, Stream: streams.EventsStream}); err != nil {
			t.Fatal(err)
		}
	}
	r := &Runtime{counted: newMetrics()}
	r.host.Store(h)
	return r, h
}

// put places a copy of an event with a key.
func (h *host) put(t *testing.T, place streams.Place, function, key string, sequence uint64) {
	t.Helper()
	c := streams.Copy{Key: key, Source: streams.EventsStream, Data: []byte(`{}`), Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {fmt.Sprint("e-", sequence)}, "ce-source": {"/s"}, "ce-type": {"t"}, "content-type": {"application/json"},
	}}
	if _, err := h.store.Place(t.Context(), place, streams.Ref{Function: function, Lane: streams.Lane(key), Sequence: sequence}, c); err != nil {
		t.Fatal(err)
	}
}

func TestLanesComeByFunctionAndLaneInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		r, _ := laneHost(t, map[string]*fakeKeeper{
			"b": {views: []laneView{
				{token: "y", key: "y", events: 1},
				{token: "a/c", key: "a/c", blocker: 9, at: lane.Waiting, events: 3, held: 2, heldSince: since},
				{token: "a", key: "a", blocker: 4, at: lane.Moving, events: 1},
				{token: "p", paused: &streams.PausedLane{Lane: "p", Key: "p", By: "ana", Reason: "audit", At: since}, blocker: 5, at: lane.Parked, events: 1},
				{token: "r", key: "r", blocker: 6, at: lane.Ready, events: 1},
			}},
			"a": {views: []laneView{{token: "z", key: "z", blocker: 1, at: lane.Parked, events: 1}}},
		}, "orphan")
		for _, c := range []struct {
			q    client.LaneQuery
			want string
		}{
			{client.LaneQuery{Limit: 9}, "a/z blocked parked, b/a blocked moving, b/a/c blocked retrying, b/p paused parked, b/r blocked retrying, b/y running"},
			{client.LaneQuery{Limit: 2}, "a/z blocked parked, b/a blocked moving"},
			{client.LaneQuery{Limit: 2, After: "b/a"}, "b/a/c blocked retrying, b/p paused parked"},
			{client.LaneQuery{Limit: 2, After: "b/a/c", State: "running"}, "b/y running"},
			{client.LaneQuery{Limit: 9, State: "paused"}, "b/p paused parked"},
			{client.LaneQuery{Limit: 9, Function: "a"}, "a/z blocked parked"},
			{client.LaneQuery{Limit: 9, Function: "a", After: "b/a"}, ""},
		} {
			list, err := r.lanes(t.Context(), c.q)
			if err != nil {
				t.Fatalf("%+v: %v", c.q, err)
			}
			var got []string
			for _, l := range list {
				text := l.Function + "/" + l.Lane + " " + l.State
				if l.Blocker != nil {
					text += " " + l.Blocker.State
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", c.q, diff)
			}
		}
		list, err := r.lanes(t.Context(), client.LaneQuery{Function: "b", After: "b/a", Limit: 2})
		want := []client.Lane{
			{Function: "b", Key: "a/c", Lane: "a/c", State: "blocked", Held: 2, Events: 3, HeldSince: since,
				Blocker: &client.LaneEvent{ID: "b/9", Sequence: 9, State: "retrying"}},
			{Function: "b", Key: "p", Lane: "p", State: "paused", Events: 1, PausedBy: "ana", PausedAt: since, PauseReason: "audit",
				Blocker: &client.LaneEvent{ID: "b/5", Sequence: 5, State: "parked"}},
		}
		if diff := cmp.Diff(want, list); diff != "" || err != nil {
			t.Errorf("error %v, lanes (-want +got):\n%s", err, diff)
		}
		_, err = r.lanes(t.Context(), client.LaneQuery{Function: "nobody", Limit: 9})
		wantRefusal(t, err, client.NotFound, "nobody", "siding function ls")
		_, err = r.lanes(t.Context(), client.LaneQuery{Function: "orphan", Limit: 9})
		wantRefusal(t, err, client.Refused, "orphan", "not hosted", "start a node")
	})
}

func TestALaneShowsWhatIsHeldInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("k", 150)
		k := &fakeKeeper{
			views: []laneView{
				{token: "k", key: "k", blocker: 2, at: lane.Parked, held: 4, events: 5},
				{token: streams.Lane(long), blocker: 7, at: lane.Parked, events: 1},
			},
			tails: map[string][]uint64{"k": {3, 4, 5, 6}},
		}
		r, h := laneHost(t, map[string]*fakeKeeper{"f": k}, "orphan")
		at := time.Now()
		h.put(t, streams.InHeld, "f", "k", 3)
		// 4 has been released since the keeper was asked. 5 was too large to be copied, 6 too, and its source has lost it.
		for range 5 {
			if _, err := h.store.JetStream().Publish(t.Context(), "events.large", nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.store.Delete(t.Context(), streams.EventsStream, 5); err != nil {
			t.Fatal(err)
		}
		large := newEvent("large")
		if a, err := h.store.Accept(t.Context(), large, nil); err != nil || a.Sequence != 6 {
			t.Fatalf("got %+v, %v, want sequence 6", a, err)
		}
		for _, seq := range []uint64{5, 6} {
			ref := streams.Ref{Function: "f", Lane: "k", Sequence: seq}
			if _, err := h.store.Place(t.Context(), streams.InHeld, ref, streams.Copy{Key: "k", Source: streams.EventsStream, Referenced: true}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.lane(t.Context(), "f", "k")
		for i := range got.Tail {
			if e := &got.Tail[i]; e.HeldAt.Sub(at).Abs() > time.Minute {
				t.Errorf("%s: got held at %s, want about %s", e.ID, e.HeldAt, at)
			} else {
				e.HeldAt = time.Time{}
			}
		}
		if got.HeldSince.Sub(at).Abs() > time.Minute { // no owner of this life saw it begin
			t.Errorf("got held since %s, want about %s", got.HeldSince, at)
		}
		got.HeldSince = time.Time{}
		want := client.LaneDetail{
			Lane: client.Lane{Function: "f", Key: "k", Lane: "k", State: "blocked", Blocker: &client.LaneEvent{ID: "f/2", Sequence: 2, State: "parked"}, Held: 4, Events: 5},
			Tail: []client.HeldEvent{
				{ID: "f/3", Sequence: 3, EventID: "e-3", Source: "/s", Type: "t"}, {ID: "f/5", Sequence: 5},
				{ID: "f/6", Sequence: 6, EventID: "large", Source: "test", Type: "t"},
			},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v, lane (-want +got):\n%s", err, diff)
		}
		for key, code := range map[string]client.Code{"l": client.NotFound, "K": client.NotFound} {
			_, err = r.lane(t.Context(), "f", key)
			wantRefusal(t, err, code, `"`+key+`"`, "siding lane ls --function f")
		}
		_, err = r.lane(t.Context(), "nobody", "k")
		wantRefusal(t, err, client.NotFound, "nobody")
		_, err = r.lane(t.Context(), "orphan", "k")
		wantRefusal(t, err, client.Refused, "not hosted")

		// Of a long key only a hash stands in subjects: a list finds it in a copy, if there is one; whoever names it is told it back.
		for _, stands := range []string{"", long} {
			if stands != "" {
				h.put(t, streams.InDeadLetters, "f", long, 7)
			}
			list, err := r.lanes(t.Context(), client.LaneQuery{After: "f/!", Limit: 1})
			if err != nil || len(list) != 1 || list[0].Key != stands || list[0].Lane != streams.Lane(long) {
				t.Errorf("got %+v, %v, want key %q", list, err, stands)
			}
			if l, err := r.lane(t.Context(), "f", long); err != nil || l.Key != long {
				t.Errorf("got %+v, %v, want key %q", l, err, long)
			}
		}
	})
}

func TestALaneIsPausedOnceAndResumedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKeeper{views: []laneView{{token: "k", key: "k", events: 1}}}
		r, _ := laneHost(t, map[string]*fakeKeeper{"f": k}, "orphan")
		now := time.Now().UTC()
		for _, key := range []string{"k", "nothing in it"} {
			p := client.PauseRequest{Function: "f", Key: key, Reason: "audit", By: "ana"}
			events := 0
			if key == "k" {
				events = 1
			}
			running := client.Lane{Function: "f", Key: key, Lane: streams.Lane(key), State: "running", Events: events}
			paused := running
			paused.State, paused.PausedBy, paused.PausedAt, paused.PauseReason = "paused", "ana", now, "audit"
			got, err := r.pauseLane(t.Context(), p)
			if diff := cmp.Diff(paused, got); diff != "" || err != nil {
				t.Errorf("%s: error %v, paused (-want +got):\n%s", key, err, diff)
			}
			_, err = r.pauseLane(t.Context(), client.PauseRequest{Function: "f", Key: key, Reason: "mine", By: "bo"})
			wantRefusal(t, err, client.Conflict, "paused by ana", "audit", "resume it first")
			got, err = r.resumeLane(t.Context(), client.PauseRequest{Function: "f", Key: key, Reason: "done", By: "bo"})
			if diff := cmp.Diff(running, got); diff != "" || err != nil {
				t.Errorf("%s: error %v, resumed (-want +got):\n%s", key, err, diff)
			}
			_, err = r.resumeLane(t.Context(), p)
			wantRefusal(t, err, client.Conflict, "not paused", "siding lane ls --function f --state paused")
		}
		if diff := cmp.Diff([]string{"k by bo: done", "nothing%20in%20it by bo: done"}, k.resumed); diff != "" {
			t.Errorf("resumed (-want +got):\n%s", diff)
		}
		for function, code := range map[string]client.Code{"orphan": client.Refused, "nobody": client.NotFound} {
			_, err := r.pauseLane(t.Context(), client.PauseRequest{Function: function, Key: "k", Reason: "audit", By: "ana"})
			wantRefusal(t, err, code, function)
			_, err = r.resumeLane(t.Context(), client.PauseRequest{Function: function, Key: "k", By: "ana"})
			wantRefusal(t, err, code, function)
		}
	})
}

func TestADeadLetterShowsWhatItsLaneHoldsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKeeper{
			views: []laneView{
				{token: "k", key: "k", blocker: 2, at: lane.Parked, held: 2, events: 4},
				{token: "retried", key: "retried", blocker: 20, at: lane.Waiting, held: 1, events: 2},
			},
			tails: map[string][]uint64{"k": {3, 5}, "retried": {22}},
		}
		r, h := laneHost(t, map[string]*fakeKeeper{"f": k}, "orphan")
		for _, function := range []string{"f", "orphan"} {
			h.put(t, streams.InDeadLetters, function, "k", 2)
			h.put(t, streams.InHeld, function, "k", 3)
			h.put(t, streams.InDeadLetters, function, "k", 4) // not what the lane waits for
			h.put(t, streams.InHeld, function, "k", 5)
			h.put(t, streams.InDeadLetters, function, "k2", 6)
			h.put(t, streams.InRetry, function, "retried", 20)
			h.put(t, streams.InDeadLetters, function, "retried", 21)
			h.put(t, streams.InHeld, function, "retried", 22)
			h.put(t, streams.InHeld, function, "freed", 40)
			h.put(t, streams.InDeadLetters, function, "freed", 41)
			h.put(t, streams.InHeld, function, "freed", 42)
			h.put(t, streams.InDeadLetters, function, "", 30)
			h.put(t, streams.InDeadLetters, function, "", 31)
		}
		for _, function := range []string{"f", "orphan"} {
			want := map[uint64]int{2: 2, 4: 0, 6: 0, 21: 0, 30: 0, 31: 0, 41: 0}
			k.asked = 0
			page, err := r.deadLetters(t.Context(), deadLetterQuery{Function: function, Limit: 100})
			got := map[uint64]int{}
			for _, d := range page {
				got[d.Sequence] = d.Held
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil || k.asked > 1 {
				t.Errorf("%s: error %v, lanes asked for %d times, held (-want +got):\n%s", function, err, k.asked, diff)
			}
			tailed := map[uint64]int{}
			ctx, cancel := context.WithCancel(t.Context())
			err = r.tail(ctx, deadLetterQuery{Function: function}, false, func(d client.DeadLetter) error {
				if tailed[d.Sequence] = d.Held; len(tailed) == len(want) {
					cancel()
				}
				return nil
			})
			cancel()
			if diff := cmp.Diff(want, tailed); diff != "" || err != nil {
				t.Errorf("%s: error %v, held in the tail (-want +got):\n%s", function, err, diff)
			}
			for sequence, held := range want {
				d, err := r.deadLetter(t.Context(), function, sequence)
				var ids []string
				for _, e := range d.Tail {
					ids = append(ids, e.ID+" "+e.EventID)
				}
				var wantIDs []string
				if held > 0 {
					wantIDs = []string{function + "/3 e-3", function + "/5 e-5"}
				}
				if diff := cmp.Diff(wantIDs, ids); diff != "" || err != nil || d.Held != held {
					t.Errorf("%s: error %v, held %d, want %d, tail (-want +got):\n%s", d.ID, err, d.Held, held, diff)
				}
			}
		}
		_, err := r.deadLetters(t.Context(), deadLetterQuery{Function: "nobody", Limit: 100})
		wantRefusal(t, err, client.NotFound, "nobody")
	})
}

func TestWhatAnOrphanHoldsIsLeftToItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, h := laneHost(t, nil, "orphan")
		h.put(t, streams.InDeadLetters, "orphan", "k", 2)
		h.put(t, streams.InHeld, "orphan", "k", 3)
		for _, d := range []client.Decision{
			{Action: client.Release, Reason: "cannot wait"}, {Action: client.Redrive},
		} {
			d.Function, d.Sequence, d.By = "orphan", 2, "ana"
			_, err := r.decide(t.Context(), d)
			wantRefusal(t, err, client.Refused, "orphan", "not hosted", "start a node that hosts orphan")
		}
		if refs, err := h.store.Standing(t.Context(), streams.InDecisions, "orphan"); err != nil || len(refs) != 0 {
			t.Errorf("got decisions %v, %v, want none", refs, err)
		}
		d, err := r.deadLetter(t.Context(), "orphan", 2)
		if err != nil || d.Held != 1 {
			t.Errorf("got %d held, %v, want 1", d.Held, err)
		}
		h.put(t, streams.InHeld, "orphan", "k", 9)
		h.put(t, streams.InHeld, "orphan", "k", 10)
		h.put(t, streams.InHeld, "orphan", "freed", 40) // whoever hosts the function goes on with it
		h.put(t, streams.InDeadLetters, "orphan", "freed", 41)
		left := leftLanes{store: h.store, function: "orphan"}
		for token, want := range map[string]laneView{
			"k": {token: "k", blocker: 2, at: lane.Parked, held: 3, events: 4}, "freed": {token: "freed", held: 1, events: 2}, "empty": {},
		} {
			if v, ok, err := left.laneView(t.Context(), token); v != want || ok != (want.events > 0) || err != nil {
				t.Errorf("got %+v, %t, %v, want %+v", v, ok, err, want)
			}
		}
		if tail, held, err := left.laneTail(t.Context(), "k", 3, 1); !slices.Equal(tail, []uint64{9}) || held != 2 || err != nil {
			t.Errorf("got tail %d of %d, %v, want 9 of 2", tail, held, err)
		}
	})
}
