package advisories

import (
	"context"

	"github.com/siding-dev/siding/streams"
)

// Outboxes has accepted what functions emitted that nobody hosts any more: their events were delivered, and a kill came before the rest.
func (o *Orphans) Outboxes(ctx context.Context) error {
	subjects, err := o.Store.Subjects(ctx, streams.OutboxStream, streams.OutboxFilter("*"))
	if err != nil {
		return err
	}
	for subject := range subjects {
		if function, _, ok := streams.ParseOutboxSubject(subject); ok && !o.Hosted(function) {
			if err := o.Store.FlushOutbox(ctx, function); err != nil {
				return err
			}
		}
	}
	return nil
}
