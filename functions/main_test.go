package functions_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Each attempt runs in a goroutine of its own: none may be left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
