package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/siding-dev/siding/functions"
)

var (
	errPark    = errors.New("parked as the script asks")
	errDiscard = errors.New("discarded as the script asks")
	errStuck   = errors.New("stuck as the script asks")
)

// play makes one attempt as a script says: words that are done one after the other until one of them ends it. The script is the
// function's, else the event's.
//
//	slow=D            take the duration D
//	slow-one-in=N:D   take the duration D, for one in N events and cycles
//	wait=F            wait until the file F exists
//	hang              never return, not even when the attempt is cancelled
//	hang-one-in=N     for one in N events and cycles, let the first attempt return, with an error, only 100ms after it was cancelled
//	stuck-one-in=N:F  for one in N events, never return in the first cycle until the file F exists, and then with an error
//	once              do a step once, and write down each time that it is done (step), and that it is recorded (stepped)
//	exit              end the process at once
//	exit=N            end the process at once, with the exit code N
//	overflow          print a value that contains itself, until the stack is full, which no recover stops
//	panic-later=D     start a goroutine that panics after D
//	panic             panic
//	panic-one-in=N    panic in the first attempt, for one in N events and cycles
//	fail=N            fail while the attempt's number is at most N
//	fail-until=F      fail unless the file F exists
//	fail-one-in=N     fail always, for one in N events and cycles
//	flaky-one-in=N    fail the first attempts, one to four of them, for one in N events and cycles
//	park-until=F      park unless the file F exists
//	park-one-in=N     park one in N events and cycles
//	park-type=T       park events of the type T
//	discard           discard
//
// note writes down what happens within the attempt. What depends on chance depends on event and cycle alone, so that an attempt that a crash repeats ends in the same way.
func play(ctx context.Context, script string, e functions.Event, note func(what string)) error {
	if script == "" {
		script, _ = e.Extensions()["do"].(string)
	}
	a := functions.AttemptFrom(ctx)
	for word := range strings.FieldsSeq(script) {
		verb, value, _ := strings.Cut(word, "=")
		var err error
		switch verb {
		case "slow":
			err = slow(ctx, value)
		case "wait":
			err = wait(ctx, value)
		case "hang":
			select {}
		case "hang-one-in":
			if a.Number == 1 && oneIn(value, "hang", e, a) {
				<-ctx.Done()
				<-time.After(100 * time.Millisecond)
				err = context.Cause(ctx)
			}
		case "stuck-one-in":
			n, path, _ := strings.Cut(value, ":")
			if a.Cycle == 0 && oneIn(n, "stuck", e, a) {
				err = errors.Join(wait(context.WithoutCancel(ctx), path), errStuck)
			}
		case "slow-one-in":
			if n, d, _ := strings.Cut(value, ":"); oneIn(n, "slow", e, a) {
				err = slow(ctx, d)
			}
		case "once":
			_, err = functions.Once(ctx, "step", func(context.Context) (bool, error) { note("step"); return true, nil })
			if err == nil {
				note("stepped")
			}
		case "exit":
			os.Exit(number(cmp.Or(value, exitCode))) //nolint:revive // what the script asks for
		case "overflow":
			debug.SetMaxStack(1 << 20)
			overflow(map[string]any{})
		case "panic-later":
			go panicLater(value) //nolint:contextcheck // it outlives its attempt
		case "panic":
			panic("as the script asks")
		case "panic-one-in":
			if a.Number == 1 && oneIn(value, "panic", e, a) {
				panic("as the script asks")
			}
		case "fail":
			err = failed(a.Number <= number(value), a)
		case "fail-until":
			err = failed(!exists(value), a)
		case "fail-one-in":
			err = failed(oneIn(value, "fail", e, a), a)
		case "flaky-one-in":
			err = failed(oneIn(value, "flaky", e, a) && a.Number <= 1+int(chance("times", e, a)%4), a)
		case "park-until":
			err = parked(!exists(value))
		case "park-one-in":
			err = parked(oneIn(value, "park", e, a))
		case "park-type":
			err = parked(e.Type() == value)
		case "discard":
			err = functions.Discard(errDiscard)
		default:
			err = functions.Park(fmt.Errorf("script %q: %q is no word of it", script, verb))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exitCode is how a script ends the process.
const exitCode = "7"

// overflow takes a value that contains itself apart.
func overflow(value map[string]any) {
	value["value"] = value
	_, _ = fmt.Fprint(io.Discard, value)
}

func panicLater(value string) {
	_ = slow(context.Background(), value)
	panic(fmt.Sprintf("%s later, as the script asks", value))
}

func failed(yes bool, a functions.Attempt) error {
	if !yes {
		return nil
	}
	return fmt.Errorf("attempt %d fails as the script asks", a.Number)
}

func parked(yes bool) error {
	if !yes {
		return nil
	}
	return functions.Park(errPark)
}

func slow(ctx context.Context, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		return functions.Park(err)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func wait(ctx context.Context, path string) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !exists(path) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func number(value string) int {
	n, err := strconv.Atoi(value)
	if err != nil {
		panic(err)
	}
	return n
}

func oneIn(value, salt string, e functions.Event, a functions.Attempt) bool {
	return chance(salt, e, a)%uint64(number(value)) == 0
}

// chance is a number that looks random and is the same whenever it is asked for. The last bits of an FNV hash of like texts are alike,
// so that it is mixed once more.
func chance(salt string, e functions.Event, a functions.Attempt) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d", salt, e.ID(), a.Cycle)
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	return sum ^ sum>>33
}
