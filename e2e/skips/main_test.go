package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReportFailsExactlyWhereARunProvesNothing(t *testing.T) {
	const (
		okay = `{"Action":"run","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
		end  = `{"Action":"output","Package":"p","Output":"PASS\n"}` + "\n" + `{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
		red  = `{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}` + "\n" + `{"Action":"fail","Package":"p"}` + "\n"
	)
	tests := map[string]struct {
		events, printed, err string
	}{
		"pass": {
			events:  okay + end,
			printed: "ok  \tp\t0.1s\n",
		},
		"what a test measured": {
			events:  `{"Action":"output","Package":"p","Test":"TestA","Output":"=== ATTR  TestA points 214\n"}` + "\n" + `{"Action":"attr","Package":"p","Test":"TestA","Key":"points","Value":"214"}` + "\n" + okay + end,
			printed: "    TestA: points 214\nok  \tp\t0.1s\n",
		},
		"skipped test": {
			events:  okay + `{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: no disk\n"}` + "\n" + `{"Action":"skip","Package":"p","Test":"TestB"}` + "\n" + end,
			printed: "--- SKIP: no disk\nok  \tp\t0.1s\n",
			err:     "p.TestB: skipped, which counts as failed: hint: make it run here or remove it",
		},
		"failed test": {
			events:  okay + `{"Action":"output","Package":"p","Test":"TestB","Output":"got 1, want 2\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestB"}` + "\n" + red,
			printed: "got 1, want 2\nFAIL\tp\t0.1s\n",
			err:     "1 packages failed",
		},
		"test that never ended": {
			events:  okay + `{"Action":"output","Package":"p","Test":"TestB","Output":"panic: test timed out\n"}` + "\n" + red,
			printed: "panic: test timed out\nFAIL\tp\t0.1s\n",
			err:     "1 packages failed",
		},
		"package that does not build": {
			events:  okay + end + `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: oh\n"}` + "\n" + `{"Action":"output","Package":"q","Output":"FAIL\tq [build failed]\n"}` + "\n" + `{"Action":"fail","Package":"q"}` + "\n",
			printed: "ok  \tp\t0.1s\nq.go:1: oh\nFAIL\tq [build failed]\n",
			err:     "1 packages failed",
		},
		"package without tests": {
			events:  okay + end + `{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}` + "\n" + `{"Action":"skip","Package":"q"}` + "\n",
			printed: "ok  \tp\t0.1s\n?   \tq\t[no test files]\n",
		},
		"nothing but a complaint of the go command": {
			events:  "go: no such package\n",
			printed: "go: no such package\n",
			err:     "no test ran",
		},
		"nothing at all": {
			err: "no test ran",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			text := ""
			if err := report(strings.NewReader(test.events), &out); err != nil {
				text = err.Error()
			}
			if text != test.err {
				t.Errorf("error: got %q, want %q", text, test.err)
			}
			if diff := cmp.Diff(test.printed, out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}
