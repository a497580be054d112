package e2e_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"testing"
)

// batch stores n events of a type and of so many keys in one request. Their ids are numbered from first on, and each key's in turn; do may give each
// its script.
func batch(t *testing.T, client *http.Client, p *process, kind string, first, n, keys int, do func(id int) string) {
	t.Helper()
	type event map[string]any
	events := make([]event, n)
	for i := range events {
		id := first + i
		events[i] = event{
			"specversion": "1.0", "id": strconv.Itoa(id), "source": "test", "type": kind, "partitionkey": strconv.Itoa(id % keys), "data": map[string]int{"n": id},
		}
		if do != nil {
			events[i]["do"] = do(id)
		}
	}
	body, err := json.Marshal(events)
	if err != nil {
		t.Fatal(err)
	}
	got, err := post(t.Context(), client, p.url, map[string][]string{"Content-Type": {"application/cloudevents-batch+json"}}, body)
	if err != nil || got.status/100 != 2 {
		t.Fatalf("batch: got %d %s, %v", got.status, got.body, err)
	}
}
