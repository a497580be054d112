package runtime

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/siding-dev/siding/functions"
)

// urlHandler makes the handler of a function that the configuration declares.
func urlHandler(url string) functions.Handler {
	return func(ctx context.Context, e functions.Event) error {
		body, err := e.MarshalJSON()
		if err != nil {
			return functions.Undecodable(err)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/cloudevents+json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return functions.Unavailable(err)
		}
		defer response.Body.Close()
		if response.StatusCode/100 != 2 {
			return fmt.Errorf("answered %s", response.Status)
		}
		return nil
	}
}
