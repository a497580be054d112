package functions

import "time"

// Breaker says when a function is suspended because a resource that it needs is
// away, or because nearly everything that comes in would be parked. While it is
// suspended no event begins its first attempt and no retry is made; one event
// at a time probes whether it can go on. The zero value is the default of each
// field.
type Breaker struct {
	// Off never suspends: the retry policy decides about every event by itself. A
	// function that takes the process down again and again is not suspended either.
	Off bool
	// Failures is how many different events, of at least two keys or sources,
	// must fail one after the other, none succeeding in between; 0 is 10. Events
	// that no retry can help (see Park) do not count.
	Failures int
	// Unavailable is the same for failures that the handler itself calls
	// Unavailable, whatever their keys and sources; 0 is 3.
	Unavailable int
	// Inflow is which share of the last 100 events may be parked before the
	// next one that would be suspends the function instead; 0 is 0.5, and 1 is
	// no such limit.
	Inflow float64
	// Probe is when the first probe is made after a suspension, and LongestProbe
	// the longest wait between two; the wait doubles from one to the other. 0 is
	// 10 s and 5 min.
	Probe, LongestProbe time.Duration
	// Probes is how many may fail before the function stays suspended until
	// a person resumes it; 0 is 10.
	Probes int
}

// WithDefaults returns b with the default for every field that is zero.
func (b Breaker) WithDefaults() Breaker {
	if b.Failures == 0 {
		b.Failures = 10
	}
	if b.Unavailable == 0 {
		b.Unavailable = 3
	}
	if b.Inflow == 0 {
		b.Inflow = 0.5
	}
	if b.Probe == 0 {
		b.Probe = 10 * time.Second
	}
	if b.LongestProbe == 0 {
		b.LongestProbe = max(5*time.Minute, b.Probe)
	}
	if b.Probes == 0 {
		b.Probes = 10
	}
	return b
}

// problems lists what is wrong with b, which has its defaults, each with the
// field it is about.
func (b Breaker) problems() []problem {
	var ps []problem
	for _, n := range []struct {
		field string
		value int
	}{{"breaker.failures", b.Failures}, {"breaker.unavailable", b.Unavailable}, {"breaker.probes", b.Probes}} {
		if n.value < 1 || n.value > maxAttempts {
			ps = append(ps, problemf(n.field, "%d is out of range; write 1 to %d", n.value, maxAttempts))
		}
	}
	if !(b.Inflow > 0 && b.Inflow <= 1) {
		ps = append(ps, problemf("breaker.inflow", "%g is out of range; write a share from 0 to 1", b.Inflow))
	}
	if b.Probe < 0 {
		ps = append(ps, problemf("breaker.probe", "%v is negative; write 0 for the default of 10s", b.Probe))
	}
	if b.LongestProbe < b.Probe {
		ps = append(ps, problemf("breaker.longestprobe", "%v is shorter than the first, %v", b.LongestProbe, b.Probe))
	}
	return ps
}
