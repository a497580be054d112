package client

import (
	"encoding/json"
	"mime"
	"strings"
	"time"
)

// EventLife is an event and what became of it at each function.
type EventLife struct {
	Stream     string            `json:"stream"`
	Sequence   uint64            `json:"sequence"`
	ID         string            `json:"id"`
	Source     string            `json:"source"`
	Type       string            `json:"type"`
	Subject    string            `json:"subject"`
	Attributes map[string]string `json:"attributes"`
	StoredAt   time.Time         `json:"stored_at"`
	Payload
	Functions []EventState `json:"functions"`
}

// EventState is where an event stands for one function.
type EventState struct {
	Function string `json:"function"`
	// State is one of pending, delivering, delivered, retrying, held, parked,
	// redriving, discarded and gone.
	State    string    `json:"state"`
	Cycle    int       `json:"cycle"`
	Attempts int       `json:"attempts"`
	History  []Attempt `json:"history"`
	// Behind is "<function>/<sequence>" of the event that a held one waits for.
	Behind string `json:"behind,omitempty"`
	// DueAt is when a retrying one is attempted again.
	DueAt time.Time `json:"due_at,omitzero"`
}

// Accepted is the node's answer to an event: it is stored.
type Accepted struct {
	ID       string `json:"id"`
	Source   string `json:"source"`
	Sequence uint64 `json:"sequence"`
	// Duplicate says that the same event had been stored before.
	Duplicate bool `json:"duplicate"`
}

// Payload is an event's data. At most one of Data and DataBase64 is set.
type Payload struct {
	DataContentType string `json:"datacontenttype,omitempty"`
	// Data is set when the data is JSON.
	Data json.RawMessage `json:"data,omitempty"`
	// DataBase64 is set for everything else.
	DataBase64 []byte `json:"data_base64,omitempty"`
}

// PayloadOf presents data of a content type: as JSON where it says so (no
// content type means JSON) and is, as base64 otherwise.
func PayloadOf(contentType string, data []byte) Payload {
	p := Payload{DataContentType: contentType}
	switch {
	case len(data) == 0:
	case isJSON(contentType) && json.Valid(data):
		p.Data = data
	default:
		p.DataBase64 = data
	}
	return p
}

// Bytes returns the data, whichever way it is presented.
func (p Payload) Bytes() []byte {
	if p.Data != nil {
		return p.Data
	}
	return p.DataBase64
}

// isJSON reports whether a content type means JSON by the rule of the
// CloudEvents JSON format.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	return strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}
