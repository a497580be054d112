package runtime

import (
	"context"
	"encoding/base64"
	"strconv"

	"github.com/siding-dev/siding/advisories"
	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/streams"
)

// maxKept bounds the data that an audit entry keeps in bytes: it must fit into one message, in base64.
const maxKept = 512 << 10

// edit gives a dead letter new data. The audit says what they replace. The original stays in the source stream; where somebody has removed it there,
// the dead letter is the last that has it, and the audit keeps it. why says why the edit cannot be applied, "" if it can.
func (o *owner) edit(ctx context.Context, ref streams.Ref, letter streams.Message, d streams.Decision) (c streams.Copy, audit streams.AuditEntry, why string, err error) {
	audit = advisories.DecidedAudit(ref, d)
	before, err := resolved(ctx, o.store, ref, letter)
	if isNotFound(err) {
		return c, audit, "its data are gone from stream " + before.Source, nil
	}
	if err != nil {
		return c, audit, "", err
	}
	if c, err = edited(o.store, o.fn, before, d.Data); err != nil {
		return c, audit, err.Error(), nil //nolint:nilerr // the edit is refused for it
	}
	audit.Detail["bytes_before"], audit.Detail["bytes_after"] = strconv.Itoa(len(before.Data)), strconv.Itoa(len(c.Data))
	_, err = o.store.Get(ctx, before.Source, ref.Sequence)
	switch {
	case err == nil:
		audit.Detail["original"] = before.Source + "/" + strconv.FormatUint(ref.Sequence, 10)
		return c, audit, "", nil
	case !isNotFound(err):
		return c, audit, "", err
	case len(before.Data) > maxKept:
		return c, audit, "stream " + before.Source + " does not have the event any more, and its data are too large to be kept elsewhere: hint: save them with `siding dlq export`, discard the dead letter, and send a corrected event", nil
	}
	audit.Detail["original_base64"] = base64.StdEncoding.EncodeToString(before.Data)
	return c, audit, "", nil
}

// edited is a copy with new data, which the function must be able to take.
func edited(store *streams.Store, fn functions.Function, before streams.Copy, data []byte) (streams.Copy, error) {
	c, err := store.Edit(before, data)
	if err != nil {
		return c, err
	}
	e, err := streams.Decode(c.Header, c.Data)
	if err != nil {
		return c, err
	}
	return c, fn.CheckData(e)
}

// resolved is the copy of a dead letter with headers and body, also if it stands by reference.
func resolved(ctx context.Context, store *streams.Store, ref streams.Ref, letter streams.Message) (streams.Copy, error) {
	c := streams.ReadCopy(letter.Header, letter.Data)
	var err error
	c.Header, c.Data, err = store.Resolve(ctx, ref, c)
	return c, err
}
