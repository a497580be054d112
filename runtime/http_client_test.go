package runtime

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/siding-dev/siding/runtime/client"
)

func TestClientSendsWhatTheHandlerStores(t *testing.T) {
	var got []event.Event
	b := newFakeBackend()
	server := httptest.NewServer(newHTTPHandler(&keeping{b, &got}, httpOptions{tokens: tokens("ana", secret)}))
	defer server.Close()
	c, err := client.New(server.URL, secret)
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range []struct{ contentType, data string }{
		{"application/json", `{"b": 1,  "a":"<é>"}`}, {"Application/Vnd.x+JSON; charset=utf-8", `[1, 2]`}, {"text/plain", "a \"b\"\n"},
		{"application/octet-stream", "\xff\x00"}, {"application/json", `{"cut`}, {"", ""},
	} {
		e := testEvent(fmt.Sprint(i))
		e.SetExtension("partitionkey", "policy 7 €")
		e.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("east", 2*3600)))
		if data.contentType != "" {
			e.SetDataContentType(data.contentType)
			e.DataEncoded = []byte(data.data)
		}
		if _, err := c.Send(t.Context(), e); err != nil {
			t.Errorf("%+v: %v", data, err)
			continue
		}
		read := got[len(got)-1]
		if string(read.Data()) != data.data || !cmp.Equal(read.Context.GetExtensions(), e.Context.GetExtensions()) ||
			read.DataContentType() != data.contentType || read.Time().Format(time.RFC3339Nano) != e.Time().Format(time.RFC3339Nano) {
			t.Errorf("got %v with data %q, want %v with %q", read, read.Data(), e, data.data)
		}
	}
}

// keeping is a backend that keeps the events it accepts.
type keeping struct {
	*fakeBackend
	events *[]event.Event
}

func (k *keeping) accept(ctx context.Context, h http.Header, events []event.Event) ([]client.Accepted, error) {
	*k.events = append(*k.events, events...)
	return k.fakeBackend.accept(ctx, h, events)
}
