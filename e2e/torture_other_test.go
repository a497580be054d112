//go:build !unix

package e2e_test

import (
	"testing"
	"time"
)

// freeze stops the process for d and reports whether this system can.
func (p *process) freeze(*testing.T, time.Duration) bool { return false }
