package client

import (
	"errors"
	"fmt"
	"net/http"
)

// Code says what kind of problem a node answered with. The set is closed.
type Code string

// The codes.
const (
	NotFound         Code = "not_found"
	Conflict         Code = "conflict"
	Refused          Code = "refused"
	Invalid          Code = "invalid"
	TooLarge         Code = "too_large"
	UnsupportedMedia Code = "unsupported_media"
	StreamFull       Code = "stream_full"
	Unavailable      Code = "unavailable"
	Unauthorized     Code = "unauthorized"
	Method           Code = "method"
	Usage            Code = "usage"
	Internal         Code = "internal"
)

// The exit codes of the command line.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitRefused     = 4
	ExitUnreachable = 5
)

// meaning is the one table that turns a code into an HTTP status and into an
// exit code. A refusal (4) will be the same when repeated; unavailable (5) and
// a full stream (1) may go away by themselves.
func (c Code) meaning() (status, exit int) {
	switch c {
	case NotFound:
		return http.StatusNotFound, ExitNotFound
	case Conflict:
		return http.StatusConflict, ExitRefused
	case Refused:
		// Well formed and understood, but against a rule.
		return http.StatusUnprocessableEntity, ExitRefused
	case Invalid:
		return http.StatusBadRequest, ExitRefused
	case TooLarge:
		return http.StatusRequestEntityTooLarge, ExitRefused
	case UnsupportedMedia:
		return http.StatusUnsupportedMediaType, ExitRefused
	case StreamFull:
		return http.StatusServiceUnavailable, ExitFailed
	case Unavailable:
		return http.StatusServiceUnavailable, ExitUnreachable
	case Unauthorized:
		return http.StatusUnauthorized, ExitRefused
	case Method:
		return http.StatusMethodNotAllowed, ExitUsage
	case Usage:
		return http.StatusBadRequest, ExitUsage
	default:
		return http.StatusInternalServerError, ExitFailed
	}
}

// Status returns the HTTP status of c. An unknown code is an internal problem.
func (c Code) Status() int {
	status, _ := c.meaning()
	return status
}

// ExitCode returns the exit code of c. An unknown code is a failure.
func (c Code) ExitCode() int {
	_, exit := c.meaning()
	return exit
}

// Codes returns the closed set.
func Codes() []Code {
	return []Code{
		NotFound, Conflict, Refused, Invalid, TooLarge, UnsupportedMedia,
		StreamFull, Unavailable, Unauthorized, Method, Usage, Internal,
	}
}

// Problem is a refusal of the node: the body of RFC 9457 with our additions.
type Problem struct {
	// Type is "about:blank": Code tells problems apart.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what and which, in one line.
	Detail string `json:"detail"`
	Code   Code   `json:"code"`
	// Hint says what to do about it.
	Hint string `json:"hint,omitempty"`
	// Attribute and Path name the part of an event that is wrong: a CloudEvents
	// attribute, and a JSON path such as $.data. Where Function names one whose
	// schema the data does not satisfy, Path is a JSON pointer into the data, such
	// as /lines/0/amount, and absent for the data as a whole.
	Attribute string `json:"attribute,omitempty"`
	Path      string `json:"path,omitempty"`
	Function  string `json:"function,omitempty"`
	// Index is the position of the wrong event in a batch, from 0.
	Index *int `json:"index,omitempty"`
}

// NewProblem returns a problem of a code with its status and title filled in.
func NewProblem(code Code, detail string) *Problem {
	status := code.Status()
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

// WithHint sets the hint of p and returns p.
func (p *Problem) WithHint(format string, args ...any) *Problem {
	p.Hint = fmt.Sprintf(format, args...)
	return p
}

// Error returns the detail, with the hint where there is one.
func (p *Problem) Error() string {
	if p.Hint == "" {
		return p.Detail
	}
	return p.Detail + ": hint: " + p.Hint
}

// ErrUnreachable is what errors.Is finds when no Siding node answered.
var ErrUnreachable = errors.New("unreachable")

// UnreachableError says which server did not answer, and why.
type UnreachableError struct {
	Server string
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("server %s: unreachable: %v", e.Server, e.Err)
}

// Is makes errors.Is(err, ErrUnreachable) true.
func (e *UnreachableError) Is(target error) bool { return target == ErrUnreachable }

// Unwrap returns the reason.
func (e *UnreachableError) Unwrap() error { return e.Err }
