//go:build unix

package e2e_test

import (
	"testing"
	"time"
)

// freeze stops the process for d and reports whether this system can.
func (p *process) freeze(t *testing.T, d time.Duration) bool {
	t.Helper()
	p.stopFor(t, d)
	return true
}
