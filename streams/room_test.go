package streams

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestReserveIsATenthWithinItsBounds(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, tc := range []struct{ total, want int64 }{
		{0, 0},
		{8 * mib, 2 * mib},
		{100 * mib, 25 * mib},
		{500 * mib, 64 * mib},
		{10 * gib, gib},
		{50 * gib, 5 * gib},
		{1000 * gib, 10 * gib},
	} {
		if got := reserveOf(tc.total); got != tc.want {
			t.Errorf("disk of %d: got reserve %d, want %d", tc.total, got, tc.want)
		}
	}
}

func TestStoreLimitStaysTheSameWhileTheStoreFillsTheDisk(t *testing.T) {
	const disk, reserve = int64(1000 << 20), int64(100 << 20)
	want := disk - reserve
	for used := int64(0); used <= disk-2*reserve; used += 50 << 20 {
		if got := maxStore(used, disk-used, reserve); got != want {
			t.Errorf("used %d: got limit %d, want %d", used, got, want)
		}
	}
}

func TestStoreLimitOnAFullDiskLeavesSomethingToWorkWith(t *testing.T) {
	const used, reserve = int64(500 << 20), int64(100 << 20)
	if got, want := maxStore(used, 10<<20, reserve), used+5<<20; got <= used || got > used+10<<20 {
		t.Errorf("got limit %d, want about %d", got, want)
	}
	if got := maxStore(0, 0, reserve); got <= 0 {
		t.Errorf("got limit %d, want a positive one: the server takes 0 for its own default", got)
	}
}

func TestRoomOfARealDisk(t *testing.T) {
	free, total, err := diskSpace(t.TempDir())
	if err != nil || free <= 0 || total < free {
		t.Errorf("got free %d, total %d, %v, want a sensible disk", free, total, err)
	}
	if _, _, err := diskSpace(t.TempDir() + "/missing"); err == nil {
		t.Error("got no error for a missing folder, want one")
	}
}

func TestAwaitRoomReturnsAtOnceWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, err := Open(t.Context(), Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := node.AwaitRoom(t.Context(), time.Hour); err != nil {
			t.Errorf("got %v, want room", err)
		}
		if err := node.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAwaitRoomLooksAgainUntilThereIsRoomOrNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := errors.New("stopping")
		n := &Node{dir: &directory{path: t.TempDir()}, closing: make(chan struct{})}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(want)
		noRoom := func() (free, reserve int64, err error) { return 1, 100, nil }
		if err := n.awaitRoom(ctx, time.Minute, noRoom); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		close(n.closing)
		if err := n.awaitRoom(t.Context(), time.Minute, noRoom); !errors.Is(err, ErrNodeClosed) {
			t.Errorf("got %v, want ErrNodeClosed", err)
		}
		n.closing = make(chan struct{})
		looks := 0
		begun := time.Now()
		err := n.awaitRoom(t.Context(), time.Minute, func() (free, reserve int64, err error) {
			looks++
			return int64(looks * 10), 100, nil
		})
		if err != nil || looks != 5 || time.Since(begun) != 4*time.Minute {
			t.Errorf("got %v after %d looks and %v, want room at the fifth look after 4m", err, looks, time.Since(begun))
		}
	})
}
