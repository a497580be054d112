package streams

import (
	"context"
	"sync"
)

// hold lets somebody copy what stands without anything moving meanwhile: while it is held, no operation that changes a register, a record
// or a ledger's mark is inside, and those that come wait outside. It is made of channels and not a sync.RWMutex, because who waits
// must be able to give up with its context.
type hold struct {
	mu      sync.Mutex
	inside  int
	over    chan struct{} // closed when the hold ends; nil while there is none
	drained chan struct{} // closed when the last operation has left; nil unless somebody waits for that
}

// enter waits until there is no hold and counts the caller in. Who has entered must not enter again before it has left: a hold that
// begins in between would wait for it, and it for the hold.
func (h *hold) enter(ctx context.Context) (leave func(), err error) {
	for {
		over := h.admit()
		if over == nil {
			return h.leave, nil
		}
		select {
		case <-over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// enterAnyway is enter for who cannot give up; a hold has a bound of its own.
func (h *hold) enterAnyway() (leave func()) {
	for over := h.admit(); over != nil; over = h.admit() {
		<-over
	}
	return h.leave
}

// admit counts the caller in, or returns what tells the end of the hold that is in its way.
func (h *hold) admit() (over <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over == nil {
		h.inside++
	}
	return h.over
}

func (h *hold) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inside--
	if h.inside == 0 && h.drained != nil {
		close(h.drained)
		h.drained = nil
	}
}

// begin keeps everybody out and returns when all who were inside have left. Only one hold may be asked for at a time. When ctx
// ends first there is none.
func (h *hold) begin(ctx context.Context) (end func(), err error) {
	h.mu.Lock()
	over, drained := make(chan struct{}), make(chan struct{})
	h.over = over
	if h.inside == 0 {
		close(drained)
	} else {
		h.drained = drained
	}
	h.mu.Unlock()
	end = sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.over, h.drained = nil, nil
		close(over)
	})
	select {
	case <-drained:
		return end, nil
	case <-ctx.Done():
		end()
		return nil, context.Cause(ctx)
	}
}

// do runs one changing operation between two calls of the gate, bounded by OpTimeout. While a backup holds what stands it waits.
func (s *Store) do(ctx context.Context, op string, f func(context.Context) error) error {
	leave, err := s.hold.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.unheld(ctx, op, f)
}

// unheld is do for what a backup does not hold up.
func (s *Store) unheld(ctx context.Context, op string, f func(context.Context) error) error {
	if s.gate != nil {
		s.gate(op)
		defer s.gate(op)
	}
	ctx, cancel := context.WithTimeout(ctx, OpTimeout)
	defer cancel()
	return f(ctx)
}

// Gated runs a change that is not the store's own (a ledger mark, a slot) under the same gate.
func (s *Store) Gated(op string, f func()) {
	leave := s.hold.enterAnyway()
	defer leave()
	if s.gate == nil {
		f()
		return
	}
	s.gate(op)
	defer s.gate(op)
	f()
}
