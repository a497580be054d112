package functions

import "context"

// Trace is a W3C trace context, as its headers carry it.
type Trace struct {
	Parent string // traceparent; "" is none
	State  string // tracestate; may be empty
}

type traceKey struct{}

// TraceFrom returns the trace context of the attempt that ctx belongs to, for
// calls that are to show in the event's trace. It is that of the attempt's own
// span; while nothing is recorded, it is that of whoever published the event,
// and the zero Trace if there is neither. [HTTP] sends it on.
func TraceFrom(ctx context.Context) Trace {
	if of, ok := ctx.Value(traceKey{}).(func() Trace); ok {
		return of()
	}
	return Trace{}
}

// WithTrace returns a context that [TraceFrom] answers with what of returns.
// Whoever calls [Invoke] sets it. It is a function because most handlers never
// ask; it may be called by several goroutines at once.
func WithTrace(ctx context.Context, of func() Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, of)
}
