package demo

import (
	"testing"

	"github.com/siding-dev/siding/streams/streamstest"
)

func TestMain(m *testing.M) { streamstest.Main(m) }
