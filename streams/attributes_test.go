package streams

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestReadAttributesRequiresWhatDecodeRequires(t *testing.T) {
	for _, c := range []struct {
		name, value string // "" deletes
	}{{"specversion", ""}, {"specversion", "0.3"}, {"id", ""}, {"source", ""}, {"type", ""}, {"id", "%C0%A0"}, {"subject", "%0A"}} {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/s"}, "ce-type": {"t"}}
		if h.Del("ce-" + c.name); c.value != "" {
			h.Set("ce-"+c.name, c.value)
		}
		_, err := ReadAttributes(h, nil)
		codecWantInvalid(t, err, c.name, "")
		_, err = Decode(h, nil)
		codecWantInvalid(t, err, c.name, "")
	}
	structured := nats.Header{"Content-Type": {"application/cloudevents+json"}}
	for body, at := range map[string][2]string{
		`{"id":"1","source":"/s","type":"t"}`:                             {"specversion", "$.specversion"},
		`{"specversion":"0.3","id":"1","source":"/s","type":"t"}`:         {"specversion", "$.specversion"},
		`{"specversion":"1.0","id":null,"source":"/s","type":"t"}`:        {"id", "$.id"},
		`{"specversion":"1.0","id":"\n","source":"/s","type":"t"}`:        {"id", "$.id"},
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","x":1.5}`: {"x", "$.x"},
		`[]`:   {"", "$"},
		`{`:    {"", "$"},
		`{} x`: {"", "$"},
		"":     {"", "$"},
	} {
		_, err := ReadAttributes(structured, []byte(body))
		codecWantInvalid(t, err, at[0], at[1])
		_, err = Decode(structured, []byte(body))
		codecWantInvalid(t, err, at[0], at[1])
	}
}

func TestAttributesGetDecodesAnyAttribute(t *testing.T) {
	h := nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/s"}, "ce-type": {"t"}, "ce-subject": {"a%20b"}, "ce-time": {"2026-01-01T00:00:00.0Z"},
		"Ce-PartitionKey": {"%E2%82%AC"}, "ce-broken": {"%ff"}, "ce-twice": {"a", "b"}, "ce-data": {"x"}, "CE-X": {"upper"}, "Ce-X": {"mixed"},
	}
	structured := []byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"a b","time":"2026-01-01T00:00:00.0Z","partitionkey":"\u20AC","n":-5,"b":true,"none":null,"data":{"id":"inner"}}`)
	for _, c := range []struct {
		header nats.Header
		body   []byte
		want   map[string]string
	}{
		{h, []byte("untouched"), map[string]string{
			"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "a b", "time": "2026-01-01T00:00:00.0Z", "partitionkey": "€",
			"absent": "", "broken": "", "twice": "", "data": "", "PartitionKey": "", "": "", "x": "upper",
		}},
		{nats.Header{"content-type": {"application/cloudevents+json"}}, structured, map[string]string{
			"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "a b", "time": "2026-01-01T00:00:00.0Z", "partitionkey": "€",
			"n": "-5", "b": "true", "none": "", "absent": "", "data": "", "datacontenttype": "application/json",
		}},
	} {
		a, err := ReadAttributes(c.header, c.body)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if got := a.Get(name); got != want {
				t.Errorf("Get(%q): got %q, want %q", name, got, want)
			}
		}
		if a.Subject() != "a b" {
			t.Errorf("Subject: got %q, want %q", a.Subject(), "a b")
		}
	}
}

func TestReadingAttributesOfABinaryMessageAllocatesNothing(t *testing.T) {
	h, body := codecBenchHeader(), bytes.Repeat([]byte("x"), 1<<20)
	n := testing.AllocsPerRun(100, func() {
		a, err := ReadAttributes(h, body)
		if err != nil || a.Get("partitionkey") != "customer-42" || a.Get("absent") != "" {
			t.Fatal(a, err)
		}
	})
	if n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func BenchmarkReadAttributes(b *testing.B) {
	structured := []byte(`{"specversion":"1.0","id":"A234-1234-1234","source":"https://example.com/shop","type":"com.example.order.created","partitionkey":"customer-42","datacontenttype":"application/json","data":{"a":1,"b":[1,2,3],"c":"text"}}`)
	canonical := nats.Header{"Ce-Specversion": {"1.0"}, "Ce-Id": {"1"}, "Ce-Source": {"/s"}, "Ce-Type": {"t"}, "Ce-Partitionkey": {"k"}, "Ce-Datacontenttype": {"application/json"}}
	for _, c := range []struct {
		name   string
		header nats.Header
		body   []byte
	}{
		{"lowercase", codecBenchHeader(), nil},
		{"canonicalcase", canonical, nil},
		{"structured", nats.Header{"Content-Type": {"application/cloudevents+json"}}, structured},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a, err := ReadAttributes(c.header, c.body)
				if err != nil || a.Get("partitionkey") == "" {
					b.Fatal(err)
				}
			}
		})
	}
}
