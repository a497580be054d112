package cli

import "github.com/siding-dev/siding/runtime/internal/spelling"

// nearest returns the known name that a person most likely meant by name, or
// nothing when all are too far away.
func nearest(name string, known []string) string { return spelling.Nearest(name, known) }
