package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// HeartbeatInterval is how often a tail without news sends an empty line.
const HeartbeatInterval = 15 * time.Second

// maxTailLine bounds one line of a tail; a dead letter in a list carries no
// data and texts of a few KiB.
const maxTailLine = 1 << 20

// TailEnd is the last line of a tail that the node ended: every other line is a
// [DeadLetter], or empty.
type TailEnd struct {
	Problem *Problem `json:"problem"`
}

// Tail calls yield for every dead letter that q selects, first those that stand
// (unless fromNow), then each new one, until ctx ends or yield returns an error,
// which Tail then returns. A connection that is silent for three heartbeats is
// given up as unreachable.
func (c *Client) Tail(ctx context.Context, q DeadLetterQuery, fromNow bool, yield func(DeadLetter) error) error {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(3*HeartbeatInterval, cancel)
	defer silence.Stop()

	values := q.values()
	if fromNow {
		values.Set("from", "now")
	}
	resp, err := c.do(bounded, http.MethodGet, "/api/v1/dlq/tail?"+values.Encode(), "", nil)
	if err != nil {
		return c.tailFailure(ctx, bounded, err)
	}
	defer resp.Body.Close()
	if err := problemIn(resp); err != nil {
		return err
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxTailLine)
	for lines.Scan() {
		silence.Reset(3 * HeartbeatInterval)
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var read struct {
			DeadLetter
			TailEnd
		}
		if err := json.Unmarshal(line, &read); err != nil {
			return c.failure(ctx, fmt.Errorf("a line of the tail is not JSON: %w", err))
		}
		if read.Problem != nil {
			return read.Problem
		}
		if err := yield(read.DeadLetter); err != nil {
			return err
		}
	}
	err = lines.Err()
	if err == nil {
		err = errors.New("the server ended the tail")
	}
	return c.tailFailure(ctx, bounded, err)
}

// tailFailure tells the caller's cancellation from our own after a silence.
func (c *Client) tailFailure(ctx, bounded context.Context, err error) error {
	if ctx.Err() == nil && bounded.Err() != nil {
		err = fmt.Errorf("silent for %s", 3*HeartbeatInterval)
	}
	return c.failure(ctx, err)
}
