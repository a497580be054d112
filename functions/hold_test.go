package functions_test

import (
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

func TestOnParkNames(t *testing.T) {
	for o, want := range map[functions.OnPark]string{functions.Hold: "hold", functions.Continue: "continue", 7: "onpark(7)"} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDefaultIsToHoldWithoutALimit(t *testing.T) {
	if f := valid().WithDefaults(); f.OnPark != functions.Hold || f.HoldLimit != (functions.HoldLimit{}) {
		t.Errorf("got %v and %+v, want hold and no limit", f.OnPark, f.HoldLimit)
	}
	f := valid()
	f.OnPark, f.HoldLimit = functions.Continue, functions.HoldLimit{Age: time.Hour, Depth: 1000}
	if got := f.WithDefaults(); got.OnPark != f.OnPark || got.HoldLimit != f.HoldLimit {
		t.Errorf("got %v and %+v, want what was set", got.OnPark, got.HoldLimit)
	}
}
