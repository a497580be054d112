package functions

import "fmt"

// FieldError is one thing that is wrong with a function. What Validate and
// ValidateAll return joins these.
type FieldError struct {
	Function string // its name, as it is
	Field    string // the field in lower case, as in retry.attempts or types[1]
	Text     string // what is wrong, and what to write instead
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("function %q: %s: %s", e.Function, e.Field, e.Text)
}
