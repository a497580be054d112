package client

import "slices"

// The node passes every answer through UTC, so that the contract about times
// is kept in one place, whatever clock the parts of the answer came from.

// UTC returns f with its times in UTC and no null lists.
func (f Function) UTC() Function {
	f.OldestParkedAt = f.OldestParkedAt.UTC()
	f.SetAside = slices.Clone(f.SetAside)
	for i := range f.SetAside {
		f.SetAside[i].At = f.SetAside[i].At.UTC()
	}
	f.Types = append([]string{}, f.Types...)
	if f.Suspension != nil {
		s := *f.Suspension
		s.Since, s.SuspendedAt, s.NextProbeAt, s.GaveUpAt = s.Since.UTC(), s.SuspendedAt.UTC(), s.NextProbeAt.UTC(), s.GaveUpAt.UTC()
		f.Suspension = &s
	}
	return f
}

// UTC returns d with its times in UTC.
func (d DeadLetter) UTC() DeadLetter {
	d.ParkedAt, d.FirstFailedAt, d.LastFailedAt = d.ParkedAt.UTC(), d.FirstFailedAt.UTC(), d.LastFailedAt.UTC()
	return d
}

// UTC returns d with its times in UTC and no null lists.
func (d DeadLetterDetail) UTC() DeadLetterDetail {
	d.DeadLetter = d.DeadLetter.UTC()
	d.History = historyUTC(d.History)
	d.Tail = tailUTC(d.Tail)
	if d.Attributes == nil {
		d.Attributes = map[string]string{}
	}
	return d
}

// UTC returns l with its times in UTC.
func (l Lane) UTC() Lane {
	l.HeldSince, l.PausedAt = l.HeldSince.UTC(), l.PausedAt.UTC()
	return l
}

// UTC returns d with its times in UTC and no null lists.
func (d LaneDetail) UTC() LaneDetail {
	d.Lane = d.Lane.UTC()
	d.Tail = tailUTC(d.Tail)
	return d
}

// UTC returns d with its time in UTC.
func (d Decided) UTC() Decided {
	d.At = d.At.UTC()
	return d
}

// UTC returns e with its times in UTC and no null lists.
func (e EventLife) UTC() EventLife {
	e.StoredAt = e.StoredAt.UTC()
	if e.Attributes == nil {
		e.Attributes = map[string]string{}
	}
	states := make([]EventState, len(e.Functions))
	for i, s := range e.Functions {
		states[i] = s.UTC()
	}
	e.Functions = states
	return e
}

// WithLists returns a with no null lists.
func (a Account) WithLists() Account {
	lines := make([]FunctionAccount, len(a.Functions))
	for i, f := range a.Functions {
		f.Problems = append([]AccountProblem{}, f.Problems...)
		lines[i] = f
	}
	a.Functions = lines
	return a
}

func tailUTC(tail []HeldEvent) []HeldEvent {
	out := make([]HeldEvent, len(tail))
	for i, e := range tail {
		e.HeldAt = e.HeldAt.UTC()
		out[i] = e
	}
	return out
}

func historyUTC(history []Attempt) []Attempt {
	out := make([]Attempt, len(history))
	for i, a := range history {
		a.StartedAt, a.EndedAt, a.DueAt = a.StartedAt.UTC(), a.EndedAt.UTC(), a.DueAt.UTC()
		out[i] = a
	}
	return out
}
