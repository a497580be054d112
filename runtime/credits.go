package runtime

import "context"

// credits bound what a fetch loop may bring into memory: each message that is held there has one.
type credits struct {
	tokens chan struct{}
	batch  int
}

// newCredits returns size credits. A fetch asks for at most batch of them, and for no fewer than a quarter of that: single pulls
// would cost a round trip an event.
func newCredits(size, batch int) *credits {
	c := &credits{tokens: make(chan struct{}, size), batch: batch}
	c.put(size)
	return c
}

// take waits for credits and returns how many it got, 0 when ctx has ended.
func (c *credits) take(ctx context.Context) int {
	least := max(1, min(c.batch, cap(c.tokens))/4)
	got := 0
	for got < least {
		select {
		case <-c.tokens:
			got++
		case <-ctx.Done():
			c.put(got)
			return 0
		}
	}
	for got < c.batch {
		select {
		case <-c.tokens:
			got++
		default:
			return got
		}
	}
	return got
}

func (c *credits) put(n int) {
	for range n {
		c.tokens <- struct{}{}
	}
}
