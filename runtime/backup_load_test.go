package runtime

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// moment is one backup that was taken under load.
type moment struct {
	file     string
	accepted uint64         // last sequence that was accepted when it began
	over     map[string]int // events that had been delivered when it began, by id, with their number
	ever     map[string]bool
	manifest streams.Manifest
}

// loadKey is the ordering key of the n-th event.
func loadKey(n int) string { return string(rune('a' + n*7%13)) }

// loadScript fails, parks and recovers by the event's number: every fifth event fails its first two attempts, every eleventh is parked
// until it is redriven, and every thirty-third is parked again, to be discarded.
func loadScript(_ context.Context, id string, a functions.Attempt) error {
	n, _ := strconv.Atoi(id)
	switch {
	case n%33 == 0 && a.Cycle <= 1, n%11 == 0 && a.Cycle == 0:
		return functions.Park(errNo)
	case n%5 == 0 && a.Number < 3:
		return errNo
	}
	return nil
}

// operate redrives what is parked for the first time and discards what is parked again.
func (l *life) operate() {
	for _, m := range l.letters("f") {
		_, ref, err := streams.ParseSubject(m.Subject)
		if err != nil {
			continue
		}
		d := client.Decision{Function: "f", Sequence: ref.Sequence, Action: client.Redrive, Reason: "test", By: "test"}
		if cycle := streams.ReadCopy(m.Header, nil).Cycle; cycle > 0 {
			d.Action, d.Cycle = client.Discard, &cycle
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, _ = l.host.decide(ctx, d) // refused while an earlier one of its lane stands
		cancel()
	}
}

// back takes a backup while everything goes on.
func (l *life) back(t *testing.T, file string) moment {
	source, err := l.store.Source(t.Context(), streams.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	m := moment{file: file, accepted: source.Last, over: map[string]int{}}
	for _, c := range l.w.calls("") {
		if c.ended && c.err == nil {
			m.over[c.event], _ = strconv.Atoi(c.event)
		}
	}
	b, err := l.host.backup(t.Context())
	if err != nil {
		t.Fatalf("backup %s: %v", file, err)
	}
	defer b.Close()
	m.ever = map[string]bool{}
	for _, c := range l.w.calls("") {
		if c.ended && c.err == nil {
			m.ever[c.event] = true
		}
	}
	f, err := os.Create(m.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if m.manifest, err = b.Write(f); err != nil {
		t.Fatalf("backup %s: %v", file, err)
	}
	return m
}

// TestBackupUnderLoadIsAStateThatAKillLeaves takes backups in the middle of bursts of events, retries, parking, decisions and releases,
// and brings each one to rest elsewhere: nothing that was accepted before is missing, the account holds, and no key goes back.
func TestBackupUnderLoadIsAStateThatAKillLeaves(t *testing.T) {
	const bursts, burst, backups = 60, 8, 20
	fn := functions.Function{Breaker: functions.Breaker{Off: true}, Retry: functions.Retry{Attempts: 4, Backoff: functions.Delays(100*time.Millisecond, time.Second)}}
	files := scratch(t)
	var moments []moment
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.start(testTiming(), []functions.Function{w.function(fn, forever, loadScript)})
		<-l.host.started
		sent, operated := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(sent)
			for n := range bursts * burst {
				e := newEvent(strconv.Itoa(n + 1))
				e.SetExtension("partitionkey", loadKey(n+1))
				l.sendEvent(e)
				if n%burst == burst-1 {
					time.Sleep(50 * time.Millisecond)
				}
			}
		}()
		go func() {
			defer close(operated)
			for {
				select {
				case <-sent:
					return
				case <-time.After(150 * time.Millisecond):
					l.operate()
				}
			}
		}()
		random := rand.New(rand.NewPCG(1, 2))
		for at := range backups {
			time.Sleep(time.Duration(1+random.IntN(5)) * 50 * time.Millisecond) // in step with the bursts
			moments = append(moments, l.back(t, filepath.Join(files, fmt.Sprintf("%d.tar", at))))
		}
		<-sent
		<-operated
		l.end()
	})
	caught := map[string]uint64{}
	for at, m := range moments {
		for _, s := range m.manifest.Streams {
			caught[s.Name] += s.Messages
		}
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { m.check(t, fn) })
		})
	}
	for _, name := range []string{streams.RetryStream, streams.HeldStream, streams.DeadLetterStream("f")} {
		if caught[name] == 0 {
			t.Errorf("no backup caught anything in %s: the load is no test", name)
		}
	}
	t.Logf("caught in all backups: %v", caught)
}

// check restores a backup, twice, and hosts the function on it until all has come to rest.
func (m moment) check(t *testing.T, fn functions.Function) {
	w := newWorld(t)
	twin := filepath.Join(w.dir, "twin")
	w.dir = filepath.Join(w.dir, "restored")
	for _, dir := range []string{w.dir, twin} {
		if _, err := streams.Restore(m.file, dir); err != nil {
			t.Fatalf("restore: %v", err)
		}
	}
	if diff := cmp.Diff(filesOf(t, w.dir), filesOf(t, twin)); diff != "" {
		t.Fatalf("restored twice (-one +other):\n%s", diff)
	}
	l := w.start(testTiming(), []functions.Function{w.function(fn, forever, loadScript)})
	a := l.account("f")
	for try := 0; !a.Holds; try++ { // what cannot be explained would never come to rest
		if try == 20 {
			t.Fatalf("the account does not hold: %+v", a)
		}
		time.Sleep(time.Second)
		a = l.account("f")
	}
	for round, open := 0, true; open; round++ {
		a = l.settle("f")
		letters := l.letters("f")
		if open = len(letters) > 0; open && round == 500 {
			t.Fatalf("does not come to rest: %+v", a)
		}
		for id, letter := range letters {
			if _, err := advisories.ReadReport(letter); err != nil {
				t.Errorf("dead letter %s: %v", id, err)
			}
		}
		l.operate()
	}
	if uint64(a.Accepted) < m.accepted || a.Delivered+a.Discarded != a.Accepted {
		t.Errorf("got %+v, want at least %d accepted and all of them delivered or discarded", a, m.accepted)
	}
	last, delivered := map[string]int{}, map[string]bool{}
	for _, c := range w.calls("") {
		n, _ := strconv.Atoi(c.event)
		key := loadKey(n)
		if n < last[key] {
			t.Errorf("event %d starts after event %d of its key", n, last[key])
		}
		last[key] = n
		delivered[c.event] = delivered[c.event] || c.ended && c.err == nil
		for _, later := range m.over {
			if later > n && loadKey(later) == key {
				t.Errorf("event %d is handled, though event %d of its key had been delivered before the backup began", n, later)
			}
		}
	}
	for n := 1; n <= int(m.accepted); n++ {
		if id := strconv.Itoa(n); !m.ever[id] && !delivered[id] && n%33 != 0 {
			t.Errorf("event %d was accepted before the backup began, and nobody ever handled it", n)
		}
	}
	l.end()
}

// filesOf reads every file below dir.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	var names []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(dir, name)
		all[rel] = string(b)
	}
	return all
}
