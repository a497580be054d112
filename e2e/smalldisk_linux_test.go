package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Environment of a process that is to become a node on a small disk: where the disk is mounted, and the node's program.
const (
	smallDiskDir     = "SIDING_E2E_SMALL_DISK"
	smallDiskProgram = "SIDING_E2E_SMALL_DISK_PROGRAM"
)

// smallDisk mounts a file system of 64 MiB, in a mount namespace that goes with the process, and becomes the node. It returns false if
// that was not asked for, and true if it could not be done.
func smallDisk() bool {
	dir := os.Getenv(smallDiskDir)
	if dir == "" {
		return false
	}
	// What is mounted here must not spread to the parent's namespace.
	err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m")
	}
	if err == nil {
		program := os.Getenv(smallDiskProgram)
		err = syscall.Exec(program, append([]string{program}, serveArgs(filepath.Join(dir, "data"))...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, "small disk:", err)
	return true
}

// TestNodeOnAFullDiskRefusesEventsLosesNoneAndGoesOnWhenThereIsRoom needs root, or a user namespace in which it may mount. It is not
// skipped where both are forbidden: allow one of them, or do without this test by name.
func TestNodeOnAFullDiskRefusesEventsLosesNoneAndGoesOnWhenThereIsRoom(t *testing.T) {
	const kind = "com.example.disk"
	disk, gates := t.TempDir(), t.TempDir()
	program := newProgram(t, []string{smallDiskDir + "=" + disk, smallDiskProgram + "=" + built.node},
		function{Name: "f", Types: []string{kind}, Attempts: 2, Delays: []time.Duration{10 * time.Millisecond}})
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	p, err := launch(t, cmd, program.env...)
	if err == nil {
		err = p.awaitReady(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &diskNode{process: p, client: newHTTPClient(t), kind: kind}
	ballast := filepath.Join("/proc", strconv.Itoa(p.pid), "root", disk, "ballast")

	// The disk fills up while attempts run that will park their events, and some that will fail.
	const parks, fails = 4, 4
	for i := range parks {
		d.accepted(t, "park-"+strconv.Itoa(i), "wait="+filepath.Join(gates, "disk")+" park-until=/never")
	}
	for i := range fails {
		d.accepted(t, "fail-"+strconv.Itoa(i), "wait="+filepath.Join(gates, "disk")+" fail-until="+filepath.Join(gates, "repaired"))
	}
	for range 20 {
		d.accepted(t, "", "")
	}
	eventually(t, func() string {
		if n := count(program.read(t), call{What: "begin"}) - count(program.read(t), call{What: "end"}); n != parks+fails {
			return fmt.Sprintf("%d attempts run", n)
		}
		return ""
	})
	if err := fill(ballast); err != nil {
		t.Fatal(err)
	}
	var refused answer
	eventually(t, func() string { // what fits into blocks that exist already is still stored
		if refused = d.publish(t, "", ""); refused.status == http.StatusAccepted {
			return "events are accepted on a full disk"
		}
		return ""
	})
	if refused.status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s on a full disk, want 503", refused.status, refused.body)
	}
	if err := os.WriteFile(filepath.Join(gates, "disk"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if n := count(program.read(t), call{What: "end"}); n < parks+fails+20 {
			return fmt.Sprintf("%d attempts have ended", n)
		}
		return ""
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	// It comes back about as soon as there is room; what could not be stored meanwhile does not wait for its time limit, one by one.
	began := time.Now()
	d.settleRefused(t)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("got %s until events were accepted again, want at most 15 s", took)
	}
	t.Attr("back-after", time.Since(began).Round(time.Millisecond).String())
	a := rest(t, p, "f", d.count).of("f")
	if a.Accepted != d.count || a.Parked != parks+fails || a.Delivered != d.count-parks-fails {
		t.Errorf("got %+v after the disk was full, want %d accepted, and of them %d parked", a, d.count, parks+fails)
	}

	// Now EVENTS reaches its own limit. It leaves room for what has to be moved: events can still be parked.
	for i := range parks {
		d.accepted(t, "late-"+strconv.Itoa(i), "wait="+filepath.Join(gates, "limit")+" park-until=/never")
	}
	eventually(t, func() string {
		if refused = d.publish(t, "", ""); refused.status == http.StatusAccepted {
			return "EVENTS is not full"
		}
		return ""
	})
	if pr := refused.problem(t); pr.Code != "stream_full" || refused.status != http.StatusServiceUnavailable {
		t.Errorf("got %d %+v from a full stream, want 503 and stream_full", refused.status, pr)
	}
	d.refused = nil
	if err := os.WriteFile(filepath.Join(gates, "limit"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a = rest(t, p, "f", d.count).of("f")
	if a.Parked != 2*parks+fails || a.Accepted != d.count || a.Delivered != d.count-2*parks-fails {
		t.Errorf("got %+v with EVENTS full, want %d accepted, and of them %d parked", a, d.count, 2*parks+fails)
	}
	if got := p.cli(t, "account"); got.code != 0 {
		t.Errorf("siding account: got exit code %d: %s", got.code, got.stderr)
	}
	t.Attr("events", strconv.Itoa(d.count))
}

// diskNode is the node, and what it has accepted.
type diskNode struct {
	*process
	client  *http.Client
	kind    string
	next    int
	count   int      // accepted
	refused []sample // what was answered with an error and may be stored or not
}

func (d *diskNode) accepted(t *testing.T, id, do string) {
	t.Helper()
	if got := d.publish(t, id, do); got.status != http.StatusAccepted {
		t.Fatalf("event %s: got %d %s, want 202", id, got.status, got.body)
	}
}

// publish sends one event of 200 kB.
func (d *diskNode) publish(t *testing.T, id, do string) answer {
	t.Helper()
	if id == "" {
		d.next++
		id = "e" + strconv.Itoa(d.next)
	}
	s := newSample(id, d.kind, `"`+strings.Repeat("x", 200_000)+`"`)
	if do != "" {
		s.attributes["do"] = do
	}
	got, err := post(t.Context(), d.client, d.url, s.headers(true), s.data)
	if err != nil {
		t.Fatal(err)
	}
	if got.status == http.StatusAccepted {
		d.count++
	} else {
		d.refused = append(d.refused, s)
	}
	return got
}

// settleRefused sends what was refused again, under its own id, until it is accepted: by the same process.
func (d *diskNode) settleRefused(t *testing.T) {
	t.Helper()
	for _, s := range d.refused {
		eventually(t, func() string {
			got, err := post(t.Context(), d.client, d.url, s.headers(true), s.data)
			if err != nil || got.status >= 300 {
				return fmt.Sprintf("event %s: got %d %s (%v)", s.attributes["id"], got.status, got.body, err)
			}
			return ""
		})
		d.count++
	}
	d.refused = nil
}

// fill writes a file until its disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}
