package functions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

func TestBreakerFillsInWhatIsNotSaid(t *testing.T) {
	defaults := functions.Breaker{Failures: 10, Unavailable: 3, Inflow: 0.5, Probe: 10 * time.Second, LongestProbe: 5 * time.Minute, Probes: 10}
	if got := (functions.Breaker{}).WithDefaults(); got != defaults {
		t.Errorf("got %+v, want %+v", got, defaults)
	}
	said := functions.Breaker{Off: true, Failures: 1, Unavailable: 2, Inflow: 1, Probe: 3 * time.Second, LongestProbe: 4 * time.Second, Probes: 5}
	if got := said.WithDefaults(); got != said {
		t.Errorf("got %+v, want it as it was said", got)
	}
	slow := functions.Breaker{Probe: time.Hour}.WithDefaults()
	if slow.LongestProbe != time.Hour {
		t.Errorf("got a longest wait of %v, want no less than the first, 1h", slow.LongestProbe)
	}
	f := valid()
	f.Breaker = functions.Breaker{}
	if got := f.WithDefaults().Breaker; got != defaults {
		t.Errorf("got %+v for a function, want the defaults", got)
	}
}

func TestBreakerIsCheckedAtRegistration(t *testing.T) {
	nan := func() float64 { zero := 0.0; return zero / zero }
	for _, tc := range []struct {
		breaker functions.Breaker
		want    string
	}{
		{functions.Breaker{}, ""},
		{functions.Breaker{Off: true}, ""},
		{functions.Breaker{Failures: 1, Unavailable: 1, Inflow: 1, Probe: time.Nanosecond, LongestProbe: time.Nanosecond, Probes: 1}, ""},
		{functions.Breaker{Failures: 1000, Unavailable: 1000, Inflow: 0.01, Probes: 1000}, ""},
		{functions.Breaker{Failures: -1}, "breaker.failures: -1 is out of range; write 1 to 1000"},
		{functions.Breaker{Failures: 1001}, "breaker.failures: 1001 is out of range"},
		{functions.Breaker{Unavailable: 1001}, "breaker.unavailable: 1001 is out of range"},
		{functions.Breaker{Probes: -1}, "breaker.probes: -1 is out of range"},
		{functions.Breaker{Inflow: 1.1}, "breaker.inflow: 1.1 is out of range"},
		{functions.Breaker{Inflow: -0.1}, "breaker.inflow: -0.1 is out of range"},
		{functions.Breaker{Inflow: nan()}, "breaker.inflow: NaN is out of range"},
		{functions.Breaker{Probe: -time.Second}, "breaker.probe: -1s is negative"},
		{functions.Breaker{Probe: time.Minute, LongestProbe: time.Second}, "breaker.longestprobe: 1s is shorter than the first, 1m0s"},
	} {
		f := valid()
		f.Breaker = tc.breaker
		switch err := f.Validate(); {
		case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), ": "+tc.want)):
			t.Errorf("%+v: got %v, want %q", tc.breaker, err, tc.want)
		}
	}
}
