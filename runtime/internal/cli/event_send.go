package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/spf13/cobra"

	"github.com/siding-dev/siding/runtime/client"
)

// sendFlags describe one event.
type sendFlags struct {
	id, source, kind, subject, key string
	data, dataFile, contentType    string
	attributes                     []string
	wait                           string
	asJSON                         bool
}

func (a *app) eventSend() *cobra.Command {
	var f sendFlags
	c := &cobra.Command{
		Use:   "send [FILE|-]",
		Short: "Store events: one from flags, or those of a file",
		Long: "Without a file, the flags describe one event. A file (- is standard input) holds structured CloudEvents in\n" +
			"JSON: one, an array of them, or one a line. The command ends when they are stored, or with --wait when every\n" +
			"function that takes them is done with them: then it fails unless all were delivered or discarded.",
		Example: "  siding event send --type com.insurer.claim.reported --key policy-7 --data '{\"claim\":1}'\n" +
			"  siding event send claims.jsonl\n" +
			"  siding event send --type com.insurer.claim.reported --data '{}' --wait=30s",
		Args: arguments(0, 1, "[FILE|-]"),
		RunE: func(c *cobra.Command, args []string) error {
			timeout, waits, err := waitOf(f.wait, args)
			if err != nil {
				return err
			}
			node, err := a.client()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				for _, name := range []string{"id", "source", "type", "subject", "key", "data", "data-file", "content-type", "attribute"} {
					if c.Flags().Changed(name) {
						return usage("give either a file or the flags of one event", "%s and --%s: which event?", args[0], name)
					}
				}
				accepted, err := a.sendFile(c.Context(), node, args[0], f.asJSON || waits)
				switch {
				case err != nil:
					return err
				case waits:
					return a.await(c.Context(), node, accepted, timeout, func(sent []client.Sent) error {
						if f.asJSON {
							return a.printJSON(sent)
						}
						return a.printSent(sent)
					})
				case f.asJSON:
					return a.printJSON(accepted)
				}
				return nil
			}
			e, err := a.eventOf(f)
			if err != nil {
				return err
			}
			accepted, err := node.Send(c.Context(), e)
			if err != nil {
				return err
			}
			if waits {
				return a.await(c.Context(), node, []client.Accepted{accepted}, timeout, func(sent []client.Sent) error {
					if f.asJSON {
						return a.printJSON(sent[0])
					}
					return a.printSent(sent)
				})
			}
			if f.asJSON {
				return a.printJSON(accepted)
			}
			return a.printAccepted([]client.Accepted{accepted})
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.kind, "type", "", "type of the event (required)")
	fs.StringVar(&f.source, "source", "/siding/cli", "source of the event")
	fs.StringVar(&f.id, "id", "", "id of the event (default: a new one)")
	fs.StringVar(&f.subject, "subject", "", "subject of the event")
	fs.StringVar(&f.key, "key", "", "ordering key (the partitionkey attribute)")
	fs.StringVar(&f.data, "data", "", "data of the event")
	fs.StringVar(&f.dataFile, "data-file", "", "file with the data of the event; - is standard input")
	fs.StringVar(&f.contentType, "content-type", "", "content type of the data (default: application/json if it is that, else text or octets)")
	fs.StringArrayVar(&f.attributes, "attribute", nil, "a further attribute, as name=value; may be repeated")
	fs.StringVar(&f.wait, "wait", "", "wait until it is handled, as in --wait=30s (without a time "+defaultWait+")")
	fs.Lookup("wait").NoOptDefVal = defaultWait
	jsonFlag(c, &f.asJSON)
	return c
}

// eventOf makes the event that the flags describe. What its values may be, the
// node knows.
func (a *app) eventOf(f sendFlags) (event.Event, error) {
	if f.kind == "" {
		return event.Event{}, usage("give --type, or a file", "event send: no type")
	}
	if f.data != "" && f.dataFile != "" {
		return event.Event{}, usage("give one of them", "--data and --data-file: which data?")
	}
	data := []byte(f.data)
	if f.dataFile != "" {
		var err error
		if data, err = a.readAll(f.dataFile); err != nil {
			return event.Event{}, err
		}
	}
	for _, text := range append([]string{f.id, f.source, f.kind, f.subject, f.key}, f.attributes...) {
		if !utf8.ValidString(text) { // JSON would carry something else in its place
			return event.Event{}, usage("attributes are text; send bytes as data, with --data-file", "event send: attribute %.60q: not UTF-8", text)
		}
	}
	// The SDK's setters trim values and escape sources; what is given is sent.
	e := event.New()
	said := &event.EventContextV1{ID: first(f.id, strings.ToLower(rand.Text())), Type: f.kind, Source: types.URIRef{URL: url.URL{Opaque: f.source}}}
	if f.subject != "" {
		said.Subject = &f.subject
	}
	e.Context = said
	e.SetTime(time.Now())
	extensions := f.attributes
	if f.key != "" {
		extensions = append([]string{"partitionkey=" + f.key}, extensions...)
	}
	for _, pair := range extensions {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return event.Event{}, usage("use --attribute name=value", "--attribute %s: no value", pair)
		}
		e.SetExtension(name, value)
	}
	if len(data) > 0 {
		e.SetDataContentType(first(f.contentType, contentTypeOf(data)))
		e.DataEncoded = data
	}
	if err := e.Validate(); err != nil {
		return event.Event{}, usage("an attribute's name has only a to z and 0 to 9; source is a URI; nothing is empty", "event: %s", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
	}
	return e, nil
}

func contentTypeOf(data []byte) string {
	switch {
	case json.Valid(data):
		return "application/json"
	case utf8.Valid(data):
		return "text/plain; charset=utf-8"
	default:
		return "application/octet-stream"
	}
}

// readAll reads a small file, or standard input.
func (a *app) readAll(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.env.Stdin)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("", "%v", err)
	}
	return b, nil
}

// The size of the batches that a file is sent in; a node takes twice as much.
const (
	sendEvents = 500
	sendBytes  = 8 << 20
)

// sendFile sends the events of a file in batches, in order. A batch that is
// refused ends it; what was stored before is said, and sending the file again
// stores nothing twice while the node remembers the ids. It prints each batch as
// it is stored, or else keeps them all and returns them.
func (a *app) sendFile(ctx context.Context, node *client.Client, path string, keep bool) ([]client.Accepted, error) {
	in := a.env.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usage("", "%v", err)
		}
		defer file.Close()
		in = file
	}
	all, sent := []client.Accepted{}, 0
	var batch []json.RawMessage
	size := 0
	send := func() error {
		if len(batch) == 0 {
			return nil
		}
		accepted, err := node.SendBatch(ctx, batch)
		if err != nil {
			return sendFailure(err, sent, path)
		}
		sent += len(batch)
		batch, size = nil, 0
		if keep {
			all = append(all, accepted...)
			return nil
		}
		return a.printAccepted(accepted)
	}
	err := eachEvent(in, func(raw json.RawMessage) error {
		if len(batch) == sendEvents || size+len(raw) > sendBytes {
			if err := send(); err != nil {
				return err
			}
		}
		batch, size = append(batch, raw), size+len(raw)
		return nil
	})
	if bad, ok := errors.AsType[*notJSONError](err); ok {
		err = usage("a file holds one CloudEvent in JSON, an array of them, or one a line", "%s: event %d: %v", path, bad.event, bad.err)
	} else if err == nil {
		err = send()
	}
	if err != nil {
		if sent > 0 {
			a.say("stored %d events before that", sent)
		}
		return nil, err
	}
	if sent == 0 {
		a.say("no events in %s", path)
	}
	return all, nil
}

// sendFailure names the event of the file that a batch was refused for.
func sendFailure(err error, sent int, path string) error {
	var p *client.Problem
	if !errors.As(err, &p) || p.Index == nil {
		return err
	}
	named := *p
	named.Detail = fmt.Sprintf("%s: event %d: %s", path, sent+*p.Index+1, p.Detail)
	return &named
}

func (a *app) printAccepted(list []client.Accepted) error {
	t := newTable(a.env.Stdout)
	for _, e := range list {
		what := "stored"
		if e.Duplicate {
			what = "duplicate"
		}
		t.row(fmt.Sprint(e.Sequence), e.ID, what)
	}
	return t.flush()
}
