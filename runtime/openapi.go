package runtime

import (
	_ "embed"
	"net/http"
)

// openAPI describes the HTTP surface in OpenAPI 3.1. A test makes it from the routes and from the types of package client.
//
//go:embed openapi.json
var openAPI []byte

func description(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
	return nil
}
