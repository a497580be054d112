package runtime

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/siding-dev/siding/runtime/client"
	"github.com/siding-dev/siding/streams"
)

// fakeCopy is a backup of a few bytes; one that is broken ends before its end.
type fakeCopy struct {
	of     *fakeBackend
	broken bool
}

func (c fakeCopy) Write(w io.Writer) (streams.Manifest, error) {
	if _, err := io.WriteString(w, strings.Repeat("backup", 100)); err != nil || !c.broken {
		return streams.Manifest{}, err
	}
	return streams.Manifest{}, errors.New("the disk is gone")
}

func (c fakeCopy) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.copies--
	return nil
}

func (b *fakeBackend) backup(context.Context) (backupCopy, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.onBackup != nil {
		return nil, b.onBackup
	}
	b.copies++
	return fakeCopy{b, b.brokenCopy}, nil
}

func TestBackupIsSentWholeOrNotAtAll(t *testing.T) {
	b := newFakeBackend()
	server := httptest.NewServer(newHTTPHandler(b, httpOptions{}))
	defer server.Close()
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := c.WriteBackup(t.Context(), &got); err != nil || got.String() != strings.Repeat("backup", 100) {
		t.Errorf("got %d bytes, %v, want the whole of it", got.Len(), err)
	}
	b.mu.Lock()
	b.brokenCopy = true
	b.mu.Unlock()
	if err := c.WriteBackup(t.Context(), io.Discard); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("cut off: got %v, want the call to fail", err)
	}
	b.mu.Lock()
	b.onBackup = &streams.BackupError{What: "backup", Reason: "no room", Hint: "make some"}
	b.mu.Unlock()
	err = c.WriteBackup(t.Context(), io.Discard)
	if p, ok := errors.AsType[*client.Problem](err); !ok || p.Code != client.Refused || p.Detail != "backup: no room" || p.Hint != "make some" {
		t.Errorf("no room: got %v, want the refusal with its hint", err)
	}
	resp, err := http.Head(server.URL + "/api/v1/backup") //nolint:noctx // a test
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("head: got %v, %v", resp, err)
	}
	_ = resp.Body.Close()
	server.Close() // every request has ended then
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.copies != 0 {
		t.Errorf("got %d copies left, want each removed when it was sent, and none made for a HEAD", b.copies)
	}
}

func (b *fakeBackend) doctor(context.Context) (client.Doctor, error) {
	return client.Doctor{OK: true, Checks: []client.DoctorCheck{{Check: "lock", Status: client.DoctorOK, Detail: "fine"}}}, nil
}

func (b *fakeBackend) forget(_ context.Context, f client.ForgetRequest) (client.Forgotten, error) {
	return client.Forgotten{Function: f.Function, Parked: 1, Applied: !f.DryRun}, nil
}

func TestForgetNeedsAReasonAndAName(t *testing.T) {
	server := httptest.NewServer(newHTTPHandler(newFakeBackend(), httpOptions{}))
	defer server.Close()
	c, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		ask  client.ForgetRequest
		want client.Code
	}{
		{client.ForgetRequest{Function: "old", Reason: "renamed", By: "anna"}, ""},
		{client.ForgetRequest{Function: "old", DryRun: true}, ""},
		{client.ForgetRequest{Function: "old", Reason: " ", By: "anna"}, client.Usage},
		{client.ForgetRequest{Function: "old", Reason: "renamed"}, client.Usage},
	} {
		got, err := c.Forget(t.Context(), tc.ask)
		if problemCode(err) != tc.want || err == nil && got.Applied == tc.ask.DryRun {
			t.Errorf("%+v: got %+v, %v, want code %q", tc.ask, got, err, tc.want)
		}
	}
	resp, err := http.Post(server.URL+"/api/v1/functions/old/forget", "application/json", strings.NewReader(`{"function":"other","reason":"r","by":"b"}`)) //nolint:noctx // a test
	if err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a body about another function: got %v, %v, want it refused", resp, err)
	}
	_ = resp.Body.Close()
}
