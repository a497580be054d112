package runtime

import (
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/functions/chaos"
)

// rehearse has functions fail as the plan says. Those that no rule is about stay as they are.
func rehearse(plan chaos.Plan, fns []functions.Function) ([]functions.Function, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	for i, fn := range fns {
		if plan.Touches(fn.Name) {
			fns[i] = plan.Wrap(fn, began)
		}
	}
	return fns, nil
}
