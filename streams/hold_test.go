package streams_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/siding-dev/siding/streams"
)

// TestNothingIsStoredWhileABackupHolds looks from inside the one operation that a backup waits for: until it has ended nothing is copied, and what
// comes after it waits until the copy is complete.
func TestNothingIsStoredWhileABackupHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside, goOn := make(chan struct{}), make(chan struct{})
		slow := true
		s := openStore(t, streams.WithGate(func(string) {
			if slow {
				slow = false
				close(inside)
				<-goOn
			}
		}))
		first := make(chan error, 1)
		go func() { first <- s.Append(t.Context(), aRecord(1)) }()
		<-inside
		taken := make(chan *streams.Backup, 1)
		go func() {
			b, err := s.Backup(t.Context(), nil)
			if err != nil {
				t.Errorf("backup: %v", err)
			}
			taken <- b
		}()
		synctest.Wait()
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Append(late, aRecord(2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a record while a backup waits to begin: got %v, want it to wait for the end of its context", err)
		}
		select {
		case <-taken:
			t.Error("got a backup while an operation was inside, want it to wait")
		default:
		}
		if _, err := s.Accept(t.Context(), newEvent("1"), nil); err != nil {
			t.Errorf("accept: got %v, want no backup to stand in the way of an event", err)
		}
		close(goOn)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		b := <-taken
		defer b.Close()
		if err := s.Append(t.Context(), aRecord(2)); err != nil {
			t.Errorf("a record after the copy: got %v, want none of the backup's business", err)
		}
	})
}

// TestBackupGivesUpOnAStoreThatDoesNotComeToRest bounds how long functions wait.
func TestBackupGivesUpOnAStoreThatDoesNotComeToRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		s := openStore(t, streams.WithGate(func(string) { <-goOn }))
		first := make(chan error, 1)
		go func() { first <- s.Append(context.WithoutCancel(t.Context()), aRecord(1)) }()
		synctest.Wait()
		began := time.Now()
		_, err := s.Backup(t.Context(), nil)
		if _, refused := errors.AsType[*streams.BackupError](err); !refused || time.Since(began) != 30*time.Second {
			t.Errorf("got %v after %s, want a refusal after 30s", err, time.Since(began))
		}
		close(goOn)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := s.Append(t.Context(), aRecord(2)); err != nil {
			t.Errorf("got %v, want the hold to be over", err)
		}
	})
}

func aRecord(seq uint64) streams.Record {
	return streams.Record{Function: "f", Sequence: seq, Kind: streams.RecordAttempt}
}
