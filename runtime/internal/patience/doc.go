// Package patience says what a function's policy means in time, before the night in which somebody finds out.
//
// A number of attempts and a backoff do not show how long an outage they outlast, nor how long a key waits for an event that cannot be handled.
// [Of] adds up both ends: the shortest delays that the policy can draw, for what it is sure to ride out, and the longest ones together with attempts
// that take all their time, for what nobody has to wait longer for.
//
// The bounds are those of the policy and its rules alone. What adds to them is not the policy's: a delay that a handler asks for by RetryAfter, a wait
// for a free worker, the grace of a handler that ignores its context, a time in which the node is down or the function suspended, and a redrive, which begins anew.
//
// Everything is pure and uses no clock.
package patience
