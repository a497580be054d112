package functions_test

import (
	"strings"
	"testing"

	"github.com/siding-dev/siding/functions"
)

func TestKeyOfAnEvent(t *testing.T) {
	attributes := map[string]string{
		"partitionkey": "pk", "subject": "sub", "source": "/src", "tenant": "t1", "id": "7", "unordered": "x", "extension:tenant": "x",
	}
	for _, tc := range []struct {
		key           functions.Key
		want, spelled string
	}{
		{functions.PartitionKey, "pk", "partitionkey"},
		{functions.BySubject, "sub", "subject"},
		{functions.BySource, "/src", "source"},
		{functions.Unordered, "", "unordered"},
		{functions.ByExtension("tenant"), "t1", "extension:tenant"},
		{functions.ByExtension("region"), "", "extension:region"},
		{functions.ByExtension("partitionkey"), "pk", "partitionkey"},
	} {
		t.Run(tc.spelled, func(t *testing.T) {
			got := tc.key.Of(func(name string) string { return attributes[name] })
			if got != tc.want {
				t.Errorf("key: got %q, want %q", got, tc.want)
			}
			if got := tc.key.String(); got != tc.spelled {
				t.Errorf("name: got %q, want %q", got, tc.spelled)
			}
			parsed, err := functions.ParseKey(tc.spelled)
			if err != nil || parsed != tc.key {
				t.Errorf("parsed: got %v, %v; want %v", parsed, err, tc.key)
			}
		})
	}
}

func TestZeroKeyIsThePartitionKey(t *testing.T) {
	var zero functions.Key
	if zero != functions.PartitionKey {
		t.Errorf("got %v, want partitionkey", zero)
	}
}

func TestParseKeyRefusesWithAHint(t *testing.T) {
	for in, hint := range map[string]string{
		"":                      "write partitionkey",
		"tenant":                "extension:<name>",
		"Subject":               "write partitionkey",
		"extension:":            "extension:<name>",
		"extension:Tenant":      "letters a to z",
		"extension:tenant-id":   "letters a to z",
		"extension:a b":         "letters a to z",
		"extension:é":           "letters a to z",
		"extension:subject":     "write subject",
		"extension:id":          "by an extension",
		"extension:extension:x": "letters a to z",
	} {
		k, err := functions.ParseKey(in)
		if err == nil || k != "" {
			t.Errorf("%q: got %v, %v; want an error", in, k, err)
			continue
		}
		if !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: got %q, want a hint at %q", in, err, hint)
		}
	}
}

func TestUnsoundKeyLeavesEventsUnordered(t *testing.T) {
	for _, k := range []functions.Key{"tenant", "extension:", functions.ByExtension("Tenant"), functions.ByExtension("id")} {
		if got := k.Of(func(string) string { return "x" }); got != "" {
			t.Errorf("%v: got %q, want no key", k, got)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"", "partitionkey", "subject", "source", "unordered", "extension:tenant", "extension:partitionkey", "extension:", "Extension:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := functions.ParseKey(s)
		if err != nil {
			return
		}
		again, err := functions.ParseKey(k.String())
		if err != nil || again != k {
			t.Errorf("%q: got %v, %v from its own name; want %v", s, again, err, k)
		}
		asked := 0
		k.Of(func(name string) string {
			if asked++; name == "" || strings.ToLower(name) != name {
				t.Errorf("%q: asked for %q", s, name)
			}
			return ""
		})
		if asked > 1 || (asked == 0) != (k == functions.Unordered) {
			t.Errorf("%q: asked %d times", s, asked)
		}
		fn := functions.Function{Name: "f", Types: []string{"a"}, OrderBy: k, Handle: ignore}
		if err := fn.Validate(); err != nil {
			t.Errorf("%q: parsed but refused: %v", s, err)
		}
	})
}
