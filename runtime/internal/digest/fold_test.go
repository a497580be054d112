package digest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// at is a minute after two o'clock.
func at(minute int) time.Time { return time.Date(2026, 12, 1, 2, minute, 0, 0, time.UTC) }

func parking(n int, function, source, cause, why string, when time.Time) Parking {
	return Parking{Function: function, ID: fmt.Sprintf("%s/%d", function, n), Source: source, Cause: cause, Why: why, Group: Fingerprint(cause, why), At: when}
}

func TestADigestTellsHowManySinceWhenFromWhomAndWhy(t *testing.T) {
	var f Fold
	n := 0
	add := func(times int, function, source, cause, why string, when time.Time) {
		for range times {
			n++
			f.Add(parking(n, function, source, cause, why, when))
		}
	}
	add(37, "file-claim", "//broker.example/portal", "permanent", "date of loss is missing", at(10))
	add(2, "file-claim", "//broker.example/portal", "permanent", "policy 7 not found", at(20))
	add(3, "file-claim", "//other.example", "permanent", "policy 8 not found", at(21))
	add(1, "notify", "", "undecodable", "", at(12))
	add(2, "notify", "/s", "exhausted", "", at(-200))
	for i := range 5 {
		add(5-i, "pay", fmt.Sprintf("/source/%d", i), "exhausted", "bank \"B1\" is away", at(30))
	}
	for i := range 20 {
		add(1, "refund", fmt.Sprintf("/many/%02d", i), "expired", "", at(30))
	}
	for range 37 {
		f.Stands("file-claim", Fingerprint("permanent", "date of loss is missing"))
	}
	f.Stands("file-claim", Fingerprint("permanent", "policy 7 not found"))
	checkGolden(t, "groups.txt", f.Digest(at(59)).Text)
}

func TestBeyondItsBoundsADigestCountsAndNamesNothing(t *testing.T) {
	var f Fold
	for i := range 3 * maxGroups {
		f.Add(Parking{Function: "f", ID: fmt.Sprint("f/", i), Group: fmt.Sprint(i), At: at(i % 60), Source: strings.Repeat("s", 10_000), Cause: fmt.Sprint(i), Why: strings.Repeat("w ", 10_000)})
	}
	f.AllStand()
	d := f.Digest(at(59))
	want := &Others{Parked: 200, StillParked: 200, Since: at(0), Line: "other groups: 200 parked since 02:00 UTC"}
	if diff := cmp.Diff(want, d.Others); diff != "" || len(d.Groups) != maxGroups || d.Parked != 300 || d.StillParked != 300 || f.Len() != 300 {
		t.Errorf("got %d groups, %d parked, %d still parked; others (-want +got):\n%s", len(d.Groups), d.Parked, d.StillParked, diff)
	}
	if size := len(d.Text); size > 128<<10 {
		t.Errorf("got a text of %d bytes", size)
	}
}

// TestTheOrderOfParkingsDoesNotChangeADigest within its bounds; beyond them it changes no sum.
func TestTheOrderOfParkingsDoesNotChangeADigest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(rt, "n")
		var all []Parking
		for i := range n {
			all = append(all, parking(i, rapid.SampledFrom([]string{"f", "g"}).Draw(rt, "function"), rapid.SampledFrom([]string{"", "/a", "/b", "/c", "/d", "/e"}).Draw(rt, "source"),
				rapid.SampledFrom([]string{"permanent", "exhausted"}).Draw(rt, "cause"), rapid.SampledFrom([]string{"", "no", "never 1"}).Draw(rt, "why"), at(rapid.IntRange(0, 5).Draw(rt, "at"))))
		}
		other := slices.Clone(all)
		seed := rapid.Uint64().Draw(rt, "seed")
		rand.New(rand.NewPCG(seed, seed)).Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		var a, b Fold
		for i := range all {
			a.Add(all[i])
			b.Add(other[i])
		}
		for _, p := range all[:n/2] {
			a.Stands(p.Function, p.Group)
			b.Stands(p.Function, p.Group)
		}
		got, want := b.Digest(at(59)), a.Digest(at(59))
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Group{})); diff != "" {
			rt.Fatalf("in another order (-want +got):\n%s", diff)
		}
		sum, standing := 0, 0
		for _, g := range got.Groups {
			sum, standing = sum+g.Parked, standing+g.StillParked
		}
		if sum != n || got.Parked != n || standing != n/2 || got.StillParked != n/2 || a.Len() != n {
			rt.Fatalf("got %d and %d parked, %d and %d still, of %d", sum, got.Parked, standing, got.StillParked, n)
		}
	})
}

// checkGolden compares a text with a file below testdata; -update writes it anew.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSuffix(string(want), "\n"), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
