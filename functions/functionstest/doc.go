// Package functionstest runs a function's handler in a unit test, once and
// without a broker.
//
// [Run] makes one attempt in the way a host does: under the function's timeout,
// with a copy of the event of its own, with panics recovered. It answers what
// the attempt came to, and what it emitted. It does not retry; how often and when
// a host would is answered by functions.Retry.Next without running anything. The
// steps that functions.Once records are kept by a [Host], for as many attempts as a
// test makes with it.
//
//	func TestUnknownPolicyIsParked(t *testing.T) {
//		e := functionstest.NewEvent("com.insurer.claim.reported", Claim{Policy: "none"})
//		if r := functionstest.Run(t, fileClaim, e); !r.Parked() {
//			t.Errorf("got %v, want it parked", r)
//		}
//	}
//
// [Chaos] has a function fail, panic or hang on purpose, by the rules that
// siding dev --chaos rehearses on a node.
//
// Run starts nothing that outlives it and may be called from parallel tests.
// Inside a testing/synctest bubble the timeout passes in fake time.
package functionstest
