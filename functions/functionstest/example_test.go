package functionstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
	"github.com/siding-dev/siding/functions/functionstest"
)

// printing stands for the *testing.T of a real test.
type printing struct{ testing.TB }

func (printing) Helper()                  {}
func (printing) Context() context.Context { return context.Background() }

func ExampleRun() {
	var t printing // in a test: t *testing.T

	f := functions.Function{
		Name:  "file-claim",
		Types: []string{"claim.reported"},
		Handle: func(_ context.Context, e functions.Event) error {
			if e.Subject() == "" {
				return functions.Park(errors.New("no subject"))
			}
			return nil
		},
	}
	r := functionstest.Run(t, f, functionstest.NewEvent("claim.reported", nil))
	fmt.Println(r.Parked(), r)
	// Output: true park (permanent): no subject
}

func ExampleNewEvent() {
	e := functionstest.NewEvent("claim.reported", map[string]int{"cents": 1200}, func(e *functions.Event) {
		e.SetExtension("partitionkey", "policy/7")
	})
	fmt.Println(e.Type(), string(e.Data()), e.Extensions()["partitionkey"])
	// Output: claim.reported {"cents":1200} policy/7
}

// A rehearsal without a broker: two attempts fail, the third one is made.
func ExampleChaos() {
	var t printing // in a test: t *testing.T

	f := functions.Function{
		Name:   "file-claim",
		Types:  []string{"claim.reported"},
		Handle: func(context.Context, functions.Event) error { return nil },
	}
	f = functionstest.Chaos(t, f, chaos.Plan{Rules: []chaos.Rule{
		{Where: "source=/functionstest*", Do: chaos.Unavailable, Times: 2, Error: "contract system: connection refused"},
	}})
	for number := 1; number <= 3; number++ {
		r := functionstest.Run(t, f, functionstest.NewEvent("claim.reported", nil), func(a *functions.Attempt) { a.Number = number })
		fmt.Println(number, r)
	}
	// Output:
	// 1 retry (unavailable): contract system: connection refused
	// 2 retry (unavailable): contract system: connection refused
	// 3 done
}
