package doctor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/runtime/internal/doctor"
	"github.com/siding-dev/siding/runtime/internal/patience"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// sound is a node with nothing to find.
func sound() doctor.Facts {
	return doctor.Facts{
		Now:       now(),
		Directory: &doctor.Directory{Path: "/d", Free: 100 << 30, Reserve: 10 << 30, Used: 1 << 20, Ledgers: 1, Newest: now()},
		Node: &doctor.Node{
			PID: 7, MaxStore: 100 << 20, Token: true,
			Streams: []doctor.Stream{{Name: "EVENTS", Bytes: 10 << 20, MaxBytes: 75 << 20, Last: now()}},
			Functions: []doctor.Function{
				{Name: "f", Hosted: true, Owner: "team", Timeout: time.Minute, Patience: patience.Of(functions.Function{}), Retrying: 2, Held: 1, Parked: 1},
				{Name: "old"},
			},
			Listeners: []doctor.Listener{{What: "the HTTP API", Address: "127.0.0.1:4280", Loopback: true}, {What: "NATS", Address: "10.0.0.1:4222", TLS: true}},
		},
	}
}

func TestSoundNodeIsFineInEveryCheck(t *testing.T) {
	got := doctor.Check(sound())
	var names []string
	for _, c := range got.Checks {
		names = append(names, c.Check)
		if c.Status != client.DoctorOK || c.Hint != "" {
			t.Errorf("%s: got %s: %s (%s), want ok", c.Check, c.Status, c.Detail, c.Hint)
		}
	}
	want := []string{"lock", "format", "disk", "ledgers", "store", "streams", "consumers", "policies", "owners", "leftovers", "doubles", "tracing", "access", "clock"}
	if !slices.Equal(names, want) || !got.OK {
		t.Errorf("got checks %v (ok %v), want %v", names, got.OK, want)
	}
}

func TestEachFaultIsFoundWithAHint(t *testing.T) {
	for name, c := range map[string]struct {
		harm         func(*doctor.Facts)
		check        string
		status, says string
	}{
		"no directory": {func(f *doctor.Facts) { f.Directory.Absent, f.Node = true, nil }, "lock", "warn", "directory /d: not there"},
		"held":         {func(f *doctor.Facts) { f.Directory.Locked, f.Node = "process 9", nil }, "lock", "warn", "directory /d: held by process 9"},
		"newer format": {func(f *doctor.Facts) {
			f.Directory.Format, f.Directory.FormatHint = "format 9 is newer than 1", "use it"
		}, "format", "fail", "directory /d: format 9 is newer than 1"},
		"disk low":         {func(f *doctor.Facts) { f.Directory.Free = 9 << 30 }, "disk", "warn", "9.0 GiB free, less than the reserve of 10.0 GiB"},
		"disk full":        {func(f *doctor.Facts) { f.Directory.Free = 4 << 30 }, "disk", "fail", "4.0 GiB free, the store needs a reserve of 10.0 GiB"},
		"torn ledger":      {func(f *doctor.Facts) { f.Directory.Damaged = map[string]string{"f": "has 3 bytes"} }, "ledgers", "warn", "function f: its ledger has 3 bytes"},
		"aside":            {func(f *doctor.Facts) { f.Directory.Aside = []string{"ledger/f.ledger.aside-1"} }, "ledgers", "warn", "ledger/f.ledger.aside-1 was not trusted by a start"},
		"unwritable":       {func(f *doctor.Facts) { f.Node.Unhealthy = "no space" }, "store", "fail", "cannot be written: no space"},
		"stream filling":   {func(f *doctor.Facts) { f.Node.Streams[0].Bytes = 65 << 20 }, "store", "warn", "stream EVENTS: 87 % used, 65.0 MiB of 75.0 MiB"},
		"stream full":      {func(f *doctor.Facts) { f.Node.Streams[0].Bytes = 75 << 20 }, "store", "fail", "stream EVENTS: full, 75.0 MiB of 75.0 MiB"},
		"store full":       {func(f *doctor.Facts) { f.Node.MaxStore = 10 << 20 }, "store", "fail", "the store: full, 10.0 MiB of 10.0 MiB"},
		"clock a bit back": {func(f *doctor.Facts) { f.Now = now().Add(-10 * time.Second) }, "clock", "warn", "stream EVENTS was written 10s from now: the clock was set back"},
		"clock far back":   {func(f *doctor.Facts) { f.Node, f.Now = nil, now().Add(-time.Hour) }, "clock", "fail", "a file of the directory was written 1h0m0s from now: the clock was set back"},
		"stream missing":   {func(f *doctor.Facts) { f.Node.Drift = []doctor.Drift{{What: "stream SIDING_HELD"}} }, "streams", "fail", "stream SIDING_HELD: missing"},
		"consumer changed": {func(f *doctor.Facts) {
			f.Node.Drift = []doctor.Drift{{What: "stream EVENTS, consumer f", Consumer: true, Field: "max deliver", Got: "5", Want: "-1"}}
		}, "consumers", "fail", "stream EVENTS, consumer f: max deliver is 5, should be -1"},
		"suspended": {func(f *doctor.Facts) { f.Node.Functions[0].Suspended = "too many of its handlers hang" }, "policies", "fail", "function f: suspended, too many of its handlers hang"},
		"parks soon": {func(f *doctor.Facts) {
			f.Node.Functions[0].Patience = patience.Of(functions.Function{Retry: functions.Quick(), Breaker: functions.Breaker{Off: true}})
		}, "policies", "warn", "function f: an outage of 2.7s already parks events (3 attempts)"},
		"endless":      {func(f *doctor.Facts) { f.Node.Functions[0].Timeout = 2 * time.Hour }, "policies", "warn", "function f: an attempt may take 2h0m0s"},
		"nobody's":     {func(f *doctor.Facts) { f.Node.Functions[0].Owner = "" }, "owners", "warn", "function f: has no owner"},
		"left":         {func(f *doctor.Facts) { f.Node.Functions[1].Parked = 3 }, "leftovers", "warn", "function old is not hosted, and of it stand 3 dead letters, 0 retrying, 0 held, 0 decisions"},
		"double":       {func(f *doctor.Facts) { f.Node.Doubles = []doctor.Double{{"f/4", "SIDING_RETRY", "DLQ_f"}} }, "doubles", "fail", "event f/4: stands in SIDING_RETRY and in DLQ_f"},
		"no collector": {func(f *doctor.Facts) { f.Node.Tracing = doctor.Tracing{Endpoint: "http://j:4318", Err: "refused"} }, "tracing", "warn", "http://j:4318: not reachable: refused"},
		"open here":    {func(f *doctor.Facts) { f.Node.Token, f.Node.Listeners = false, f.Node.Listeners[:1] }, "access", "warn", "the HTTP API on 127.0.0.1:4280: open to everybody on this machine"},
		"open":         {func(f *doctor.Facts) { f.Node.Token, f.Node.Listeners = false, f.Node.Listeners[1:] }, "access", "fail", "NATS on 10.0.0.1:4222: open to everybody who reaches it"},
		"plain":        {func(f *doctor.Facts) { f.Node.Listeners[1].TLS = false }, "access", "warn", "NATS on 10.0.0.1:4222: tokens and events travel unencrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			f := sound()
			c.harm(&f)
			got := doctor.Check(f)
			bad := slices.DeleteFunc(got.Checks, func(c client.DoctorCheck) bool { return c.Status == client.DoctorOK })
			if len(bad) != 1 || bad[0].Check != c.check || bad[0].Status != c.status || bad[0].Detail != c.says || strings.TrimSpace(bad[0].Hint) == "" {
				t.Errorf("got %+v, want one %s of %s with a hint: %s", bad, c.status, c.check, c.says)
			}
			if got.OK != (c.status != client.DoctorFail) {
				t.Errorf("got ok %v for a finding that says %s", got.OK, c.status)
			}
		})
	}
}

// How patient a function is stands there although nothing is wrong with it: the breaker would help in an outage.
func TestEachFunctionsPolicyIsToldInOneFinding(t *testing.T) {
	f := sound()
	f.Node.Functions = append(f.Node.Functions, doctor.Function{
		Name: "quick", Hosted: true, Owner: "team", Patience: patience.Of(functions.Function{Retry: functions.Quick()}),
	})
	told := func() []string {
		var told []string
		for _, c := range doctor.Check(f).Checks {
			if c.Check == "policies" {
				told = append(told, c.Status+" "+c.Detail)
			}
		}
		return told
	}
	got := told()
	if len(got) != 2 || !strings.HasPrefix(got[0], "ok function f: rides out ") || !strings.Contains(got[1], "ok function quick: rides out 2.7s, parks within 1m34s") ||
		!strings.Contains(got[1], "the breaker suspends the function") {
		t.Errorf("got %q, want one of each function", got)
	}
	f.Node.Functions = f.Node.Functions[1:2]
	if got := told(); !slices.Equal(got, []string{"ok no function is hosted"}) {
		t.Errorf("got %q, want no function hosted", got)
	}
}

func TestWhatNobodyLookedAtIsNotCalledFine(t *testing.T) {
	f := sound()
	f.Node = nil
	for _, c := range doctor.Check(f).Checks {
		if !slices.Contains([]string{"lock", "format", "disk", "ledgers", "clock"}, c.Check) {
			t.Errorf("got a finding of %s about a node that does not run: %s", c.Check, c.Detail)
		}
	}
}
