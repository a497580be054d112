package cli

import (
	"errors"
	"time"
)

// instant is a flag that names a time: as such, or by how long ago it was.
type instant time.Time

func (t *instant) String() string {
	if time.Time(*t).IsZero() {
		return ""
	}
	return time.Time(*t).UTC().Format(time.RFC3339Nano)
}

// Set reads a time.
func (t *instant) Set(value string) error {
	if at, err := time.Parse(time.RFC3339Nano, value); err == nil {
		*t = instant(at)
		return nil
	}
	ago, err := time.ParseDuration(value)
	if err != nil || ago < 0 {
		return errors.New("write a time as in 2026-01-02T03:04:05Z, or how long ago it was, as in 2h")
	}
	*t = instant(time.Now().Add(-ago))
	return nil
}

// Type is how the help calls what the flag takes.
func (*instant) Type() string { return "time" }
