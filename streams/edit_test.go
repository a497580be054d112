package streams_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/siding-dev/siding/streams"
)

func TestAnEditChangesTheDataAndNothingElse(t *testing.T) {
	s := openStore(t)
	for name, c := range map[string]streams.Copy{
		"binary": {
			Header: nats.Header{
				"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/a"}, "ce-type": {"t"}, "ce-subject": {"Euro%20%E2%82%AC"}, "ce-partitionkey": {"k"},
				"ce-datacontenttype": {"application/json"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			},
			Data: []byte(`{"a":1}`),
		},
		"structured": {
			Header: nats.Header{
				"Content-Type": {"application/cloudevents+json"}, "ce-id": {"says nothing in this mode"},
				"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
			},
			Data: []byte(`{"specversion":"1.0","id":"1","source":"/a","type":"t","subject":"Euro €","partitionkey":"k","datacontenttype":"application/json","data":{"a":1}}`),
		},
		"by reference": {
			Header:     nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/a"}, "ce-type": {"t"}, "ce-subject": {"Euro%20%E2%82%AC"}, "ce-partitionkey": {"k"}, "ce-datacontenttype": {"application/json"}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
			Data:       []byte(`{"a":1}`),
			Referenced: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.Cycle, c.Key, c.Source = 2, "k", streams.EventsStream
			edited, err := s.Edit(c, []byte(` {"a": 2}`))
			if err != nil {
				t.Fatal(err)
			}
			if edited.Cycle != 2 || edited.Key != "k" || edited.Source != streams.EventsStream || edited.Referenced {
				t.Errorf("got %+v, want cycle, key and source as they were, and a copy of its own", edited)
			}
			if got := edited.Header["Traceparent"]; len(got) != 1 {
				t.Errorf("got traceparent %v, want it kept", got)
			}
			want, err := streams.Decode(c.Header, c.Data)
			if err != nil {
				t.Fatal(err)
			}
			want.DataEncoded = []byte(` {"a": 2}`)
			got, err := streams.Decode(edited.Header, edited.Data)
			if diff := cmp.Diff(want.String(), got.String()); diff != "" || err != nil {
				t.Errorf("error %v, event (-want +got):\n%s", err, diff)
			}
			if string(got.Data()) != ` {"a": 2}` {
				t.Errorf("got data %s, want them byte for byte", got.Data())
			}
		})
	}
}

func TestAnEditThatWouldNotStandIsRefused(t *testing.T) {
	s := openStore(t)
	header := func(contentType string) nats.Header {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/a"}, "ce-type": {"t"}}
		if contentType != "" {
			h["ce-datacontenttype"] = []string{contentType}
		}
		return h
	}
	wide := header("")
	wide["ce-wide"] = []string{strings.Repeat("x", streams.MaxEventHeader)}
	for name, tc := range map[string]struct {
		header nats.Header
		data   string
		want   error // nil: it stands
	}{
		"json":                   {header("application/json"), `{"a":`, streams.ErrData},
		"json by its name":       {header("application/claim+json"), `x`, streams.ErrData},
		"json unless said":       {header(""), `x`, streams.ErrData},
		"no json":                {header("text/plain"), `{"a":`, nil},
		"too large":              {header("text/plain"), strings.Repeat("x", 1<<20), streams.ErrTooLarge},
		"too wide":               {wide, `{}`, streams.ErrTooLarge},
		"what is no event":       {nats.Header{"x": {"y"}}, `{}`, streams.ErrNotEvent},
		"empty where it is text": {header("text/plain"), ``, nil},
	} {
		if _, err := s.Edit(streams.Copy{Header: tc.header, Data: []byte("x")}, []byte(tc.data)); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}
