package runtime

import "runtime/debug"

// modulePath is the module that everything here belongs to.
const modulePath = "github.com/siding-dev/siding"

// release is the version by which the go command can fetch the Siding that a
// program is built from, or "" where it comes from a checkout: what was
// downloaded has a checksum.
func release(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == modulePath && m.Replace == nil && m.Sum != "" {
			return m.Version
		}
	}
	return ""
}
