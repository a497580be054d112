package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
)

// fakeRehearsal says what a plan does to two attempts of an event at three moments, and kills if the first one is to.
func fakeRehearsal(out io.Writer, plan chaos.Plan) {
	if len(plan.Rules) == 0 {
		return
	}
	e := event.New()
	e.SetID("claim-1")
	e.SetSource("//broker-1/claims")
	e.SetType("claim.reported")
	for _, elapsed := range []time.Duration{0, time.Minute, 20 * time.Minute} {
		for _, number := range []int{1, 4} {
			d := plan.Decide("file-claim", e, functions.Attempt{Number: number}, elapsed)
			fmt.Fprintf(out, "at %v, attempt %d: %q after %v %q\n", elapsed, number, d.Do, d.Delay, d.Error)
			if d.Do == chaos.Kill && elapsed == 0 && number == 1 {
				plan.Kill()
			}
		}
	}
}
