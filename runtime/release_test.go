package runtime

import (
	"runtime/debug"
	"testing"
)

func TestOnlyWhatWasDownloadedIsARelease(t *testing.T) {
	const path = "github.com/siding-dev/siding"
	other := &debug.Module{Path: "golang.org/x/sync", Version: "v0.25.0", Sum: "h1:x"}
	for name, c := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"go run in a checkout":     {debug.BuildInfo{Main: debug.Module{Path: path, Version: "(devel)"}}, ""},
		"go build in a checkout":   {debug.BuildInfo{Main: debug.Module{Path: path, Version: "v0.0.0-20261130000000-abcdefabcdef"}}, ""},
		"go install":               {debug.BuildInfo{Main: debug.Module{Path: path, Version: "v1.2.3", Sum: "h1:x"}}, "v1.2.3"},
		"a program with a release": {debug.BuildInfo{Main: debug.Module{Path: "claims"}, Deps: []*debug.Module{other, {Path: path, Version: "v1.2.3", Sum: "h1:x"}}}, "v1.2.3"},
		"a program with a checkout": {debug.BuildInfo{Main: debug.Module{Path: "claims"}, Deps: []*debug.Module{
			{Path: path, Version: "v0.0.0", Replace: &debug.Module{Path: "/src/siding"}}, other,
		}}, ""},
	} {
		if got := release(&c.info); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
