package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/config"
)

func TestTheHelpOfDevShowsASoundFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chaos.yaml")
	if err := os.WriteFile(path, []byte(chaosExample), 0o600); err != nil {
		t.Fatal(err)
	}
	plan, err := config.LoadChaos(path, []functions.Function{{Name: "file-claim"}})
	if err != nil || len(plan.Rules) != 3 || plan.Seed != 7 {
		t.Errorf("got %+v and %v, want the three rules of the help", plan, err)
	}
}
