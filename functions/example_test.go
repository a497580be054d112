package functions_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/functionstest"
)

// printing stands for the *testing.T of a real test.
type printing struct{ testing.TB }

func (printing) Helper()                  {}
func (printing) Context() context.Context { return context.Background() }

type Claim struct {
	Policy string `json:"policy"`
	Cents  int    `json:"cents"`
}

var errUnknownPolicy = errors.New("unknown policy")

func fileClaim(_ context.Context, claim Claim) error {
	if claim.Policy == "none" {
		return functions.Park(errUnknownPolicy)
	}
	return nil
}

// show invokes a handler as a host does and prints what the attempt came to.
func show(h functions.Handler, e functions.Event) {
	r := functions.Invoke(context.Background(), functions.Function{Handle: h}, e)
	fmt.Println(r.Outcome, r.Class, r.After, r.Err)
}

func Example() {
	f := functions.Function{
		Name:    "file-claim",
		Types:   []string{"com.insurer.claim.reported"},
		OrderBy: functions.PartitionKey,
		Retry:   functions.Retry{Attempts: 3, Backoff: functions.Exponential(time.Second, time.Minute)},
		Timeout: 30 * time.Second, Concurrency: 16,
		Owner: "claims-team", Version: "1.4.0",
		Handle: functions.Typed(fileClaim),
	}
	fmt.Println(f.Validate())

	e := functionstest.NewEvent("com.insurer.claim.reported", Claim{Policy: "none"})
	r := functions.Invoke(context.Background(), f, e)
	fmt.Println(r.Outcome, r.Class, r.Err)
	fmt.Println(errors.Is(r.Err, errUnknownPolicy))
	// Output:
	// <nil>
	// park permanent unknown policy
	// true
}

func ExamplePark() {
	show(func(context.Context, functions.Event) error {
		return functions.Park(errUnknownPolicy)
	}, functionstest.NewEvent("claim.reported", nil))
	// Output: park permanent 0s unknown policy
}

func ExampleDiscard() {
	show(func(context.Context, functions.Event) error {
		return functions.Discard(errors.New("claim was withdrawn"))
	}, functionstest.NewEvent("claim.reported", nil))
	// Output: discard permanent 0s claim was withdrawn
}

func ExampleRetryAfter() {
	show(func(context.Context, functions.Event) error {
		return functions.RetryAfter(7*time.Second, errors.New("429 too many requests"))
	}, functionstest.NewEvent("claim.reported", nil))
	// Output: retry transient 7s 429 too many requests
}

func ExampleUnavailable() {
	show(func(context.Context, functions.Event) error {
		return functions.Unavailable(errors.New("ledger: connection refused"))
	}, functionstest.NewEvent("claim.reported", nil))
	// Output: retry unavailable 0s ledger: connection refused
}

func ExampleRule() {
	f := functions.Function{
		Rules: []functions.Rule{
			functions.OnError[*net.OpError](functions.ClassUnavailable),
			functions.OnIs(errUnknownPolicy, functions.ClassPermanent),
			functions.OnText("deadlock", "").WithAttempts(3).WithBackoff(functions.Delays(time.Second)),
		},
	}
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: errors.New("connection refused")},
		fmt.Errorf("claim 7: %w", errUnknownPolicy),
		errors.New("ledger: deadlock detected"),
		functions.Park(errors.New("deadlock of the clerks")), // the handler's own word comes first
	} {
		f.Handle = func(context.Context, functions.Event) error { return err }
		r := functions.Invoke(context.Background(), f, functionstest.NewEvent("claim.reported", nil))
		fmt.Println(r.Outcome, r.Class, f.Retry.For(r).Attempts)
	}
	// Output:
	// retry unavailable 12
	// park permanent 12
	// retry transient 3
	// park permanent 12
}

func ExamplePatient() {
	fmt.Println(functions.Quick().Attempts, functions.Quick().Backoff)
	fmt.Println(functions.Patient().Attempts, functions.Patient().Backoff)
	// Output:
	// 3 exponential 1s to 5s, jitter 0.2
	// 38 exponential 1s to 30m0s, jitter 0.2
}

func ExampleSuspend() {
	show(func(context.Context, functions.Event) error {
		return functions.Suspend(errors.New("the contract has ended"))
	}, functionstest.NewEvent("claim.reported", nil))
	// Output: retry unavailable 0s the contract has ended
}

func ExampleHTTP() {
	// The other end may be written in any language.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.Header.Get("ce-type"))
		http.Error(w, "no policy has this number", http.StatusUnprocessableEntity)
	}))
	defer server.Close()
	f := functions.Function{
		Name:   "file-claim",
		Types:  []string{"claim.reported"},
		Handle: functions.HTTP(server.URL, functions.HTTPHeader("Authorization", "Bearer s3cret")),
	}
	r := functions.Invoke(context.Background(), f, functionstest.NewEvent("claim.reported", Claim{Policy: "none"}))
	fmt.Println(r.Outcome, r.Class, r.Code)
	// Output:
	// POST claim.reported
	// park permanent http_422
}

func ExampleFunction_CheckData() {
	f := functions.Function{
		Name:   "file-claim",
		Types:  []string{"claim.reported"},
		Schema: []byte(`{"required": ["policy"], "properties": {"cents": {"type": "integer", "minimum": 0}}}`),
		Handle: functions.Typed(fileClaim),
	}
	fmt.Println(f.Validate())
	err := f.CheckData(functionstest.NewEvent("claim.reported", Claim{Policy: "7", Cents: -5}))
	fmt.Println(err)
	if bad, ok := errors.AsType[*functions.SchemaError](err); ok {
		fmt.Println(bad.Path)
	}
	// Output:
	// <nil>
	// data does not satisfy the schema: at /cents: minimum: got -5, want 0
	// /cents
}

func ExampleTyped() {
	h := functions.Typed(func(ctx context.Context, claim Claim) error {
		fmt.Println(functions.EventFrom(ctx).Subject(), claim.Cents)
		return nil
	})
	subject := func(e *functions.Event) { e.SetSubject("claim/7") }
	show(h, functionstest.NewEvent("claim.reported", Claim{Cents: 1200}, subject))
	show(h, functionstest.NewEvent("claim.reported", []byte(`{"cents":"many"}`)))
	// Output:
	// claim/7 1200
	// done  0s <nil>
	// park undecodable 0s data of "claim.reported" as functions_test.Claim: json: cannot unmarshal string into Go struct field Claim.cents of type int
}

func ExampleAttemptFrom() {
	h := func(ctx context.Context, _ functions.Event) error {
		if a := functions.AttemptFrom(ctx); a.Number == a.Allowed {
			fmt.Printf("last of %d attempts for %s\n", a.Allowed, a.Key)
		}
		return nil
	}
	ctx := functions.WithAttempt(context.Background(), functions.Attempt{Number: 3, Allowed: 3, Key: "policy/7"})
	functions.Invoke(ctx, functions.Function{Handle: h}, functionstest.NewEvent("claim.reported", nil))
	// Output: last of 3 attempts for policy/7
}

// The claim is created once, although the first attempt fails behind that, and the
// event that follows from it is there only when all has been done.
func ExampleOnce() {
	created, down := 0, true
	f := functions.Function{
		Name: "file-claim", Types: []string{"claim.reported"},
		Handle: func(ctx context.Context, _ functions.Event) error {
			number, err := functions.Once(ctx, "create", func(context.Context) (int, error) {
				created++
				return 4700 + created, nil
			})
			if err != nil {
				return err
			}
			filed := functionstest.NewEvent("claim.filed", number)
			if err := functions.Emit(ctx, filed); err != nil {
				return err
			}
			if down {
				return errors.New("the mail server is down")
			}
			return nil
		},
	}
	var host functionstest.Host
	var t printing
	e := functionstest.NewEvent("claim.reported", nil)
	r := host.Run(t, f, e)
	fmt.Println(r, len(r.Emitted()))
	down = false
	r = host.Run(t, f, e, func(a *functions.Attempt) { a.Number = 2 })
	fmt.Println(r, created, string(r.Emitted()[0].Data()), r.Emitted()[0].Extensions()["causationid"])
	// Output:
	// retry (transient): the mail server is down 0
	// done 1 4701 1
}

func ExampleEventFrom() {
	h := functions.Typed(func(ctx context.Context, _ Claim) error {
		e := functions.EventFrom(ctx)
		fmt.Println(e.Type(), e.ID())
		return nil
	})
	functions.Invoke(context.Background(), functions.Function{Handle: h}, functionstest.NewEvent("claim.reported", Claim{}))
	// Output: claim.reported 1
}

func ExampleExponential() {
	b := functions.Exponential(time.Second, 10*time.Second)
	for failed := 1; failed <= 5; failed++ {
		fmt.Print(b.Delay(failed, 0), " ")
	}
	// Output: 1s 2s 4s 8s 10s
}

func ExampleDelays() {
	b := functions.Delays(time.Second, time.Minute)
	fmt.Println(b.Delay(1, 0), b.Delay(2, 0), b.Delay(3, 0))
	// Output: 1s 1m0s 1m0s
}

func ExampleBackoff_WithJitter() {
	b := functions.Delays(10 * time.Second).WithJitter(0.2)
	fmt.Println(b.Delay(1, 0), b.Delay(1, 0.5), b.Longest(2))
	// Output: 9s 10s 11s
}

func ExampleRetry_Next() {
	r := functions.Retry{Attempts: 3, Backoff: functions.Exponential(time.Second, time.Minute)}
	now := time.Now()
	for failed := 1; failed <= 3; failed++ {
		fmt.Println(r.Next(failed, now, now, 0, 0))
	}
	// Output:
	// 1s true
	// 2s true
	// 0s false
}

func ExampleQuick() {
	r := functions.Quick()
	fmt.Println(r.Attempts, "attempts,", r.Backoff)
	// Output: 3 attempts, exponential 1s to 5s, jitter 0.2
}

func ExampleOnPark() {
	f := functions.Function{
		Name:      "send-reminder",
		Types:     []string{"com.insurer.claim.due"},
		OnPark:    functions.Continue, // one reminder does not build on the one before
		HoldLimit: functions.HoldLimit{Age: time.Hour, Depth: 1000},
		Handle:    functions.Typed(fileClaim),
	}
	fmt.Println(f.Validate(), f.OnPark)
	f.HoldLimit.Age = -time.Hour
	fmt.Println(f.Validate())
	// Output:
	// <nil> continue
	// function "send-reminder": holdlimit.age: -1h0m0s is negative; write 0 for no limit
}

func ExampleByExtension() {
	k := functions.ByExtension("tenant")
	fmt.Println(k, k.Of(func(name string) string { return name + "-7" }))
	// Output: extension:tenant tenant-7
}

func ExampleParseKey() {
	k, err := functions.ParseKey("subject")
	fmt.Println(k == functions.BySubject, err)
	_, err = functions.ParseKey("tenant")
	fmt.Println(err)
	// Output:
	// true <nil>
	// ordering key "tenant" is unknown; write partitionkey, subject, source, unordered or extension:<name>
}

func ExampleResultOf() {
	err := fmt.Errorf("claim 7: %w", functions.RetryAfter(time.Minute, functions.Unavailable(errors.New("ledger is down"))))
	r := functions.ResultOf(err)
	fmt.Println(r.Outcome, r.Class, r.After, r.Err)
	// Output: retry unavailable 1m0s claim 7: ledger is down
}

func ExampleInvoke() {
	broken := func(context.Context, functions.Event) error { panic("index broken") }
	show(broken, functionstest.NewEvent("claim.reported", nil))
	// Output: retry panic 0s panic: index broken
}

func ExampleValidateAll() {
	f := functions.Function{Name: "file-claim", Types: []string{"claim..reported"}, Handle: functions.Typed(fileClaim)}
	g := f
	g.Types = []string{"claim.*"}
	fmt.Println(functions.ValidateAll([]functions.Function{f, g}))
	// Output:
	// function "file-claim": types[0]: "claim..reported" has an empty token; write tokens with single dots between them, such as com.insurer.claim.*
	// function "file-claim": name: two functions have it; a name is where the events of one function stand, so rename one
}
