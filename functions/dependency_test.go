package functions_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/siding-dev/siding/functions"
)

func TestDependencyDefaults(t *testing.T) {
	given := []functions.Dependency{{Name: "a", Check: there}, {Name: "b", Check: there, Every: time.Minute, Timeout: time.Second}}
	f := valid()
	f.Dependencies = given
	f = f.WithDefaults()
	for i, want := range [][2]time.Duration{{5 * time.Second, 3 * time.Second}, {time.Minute, time.Second}} {
		if d := f.Dependencies[i]; d.Every != want[0] || d.Timeout != want[1] {
			t.Errorf("%s: got every %s for %s, want %s", d.Name, d.Every, d.Timeout, want)
		}
	}
	if given[0].Every != 0 {
		t.Error("the defaults were written into what was given")
	}
}

func TestHTTPCheckTakesAnyAnswerBelow500(t *testing.T) {
	for status, up := range map[int]bool{200: true, 204: true, 302: true, 401: true, 404: true, 499: true, 500: false, 503: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/health" {
				t.Errorf("got %s %s", r.Method, r.URL.Path)
			}
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
		}))
		err := functions.HTTPCheck(server.URL + "/health")(t.Context())
		if server.Close(); (err == nil) != up {
			t.Errorf("status %d: got %v, want up %v", status, err, up)
		}
	}
}

func TestHTTPCheckFailsWithoutAnAnswerAndKeepsSecrets(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	hangs := functions.HTTPCheck(strings.Replace(server.URL, "://", "://user:hush@", 1) + "/?token=hush")(ctx)
	refused := functions.HTTPCheck("http://user:hush@127.0.0.1:1/?token=hush")(t.Context())
	for _, err := range []error{hangs, refused} {
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.HasPrefix(err.Error(), "GET http://127.0.0.1:") {
			t.Errorf("got %v, want an error that names the address alone", err)
		}
	}
}

func TestHTTPCheckPanicsOnWhatIsNoURL(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("got no panic")
		}
	}()
	functions.HTTPCheck("contract-system")
}
