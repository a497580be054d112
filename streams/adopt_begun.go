package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Adopting says in the declaration of an old name that an adoption has begun: to which name, by whom, why, and when.
type Adopting struct {
	To     string    `json:"to"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// UnderWayError is an adoption that has begun and is not finished. What it moves stands partly under one name and partly under the other, so
// nobody may run or end either of them until it is.
type UnderWayError struct{ Old, Name string }

// Error names both functions.
func (e *UnderWayError) Error() string {
	return fmt.Sprintf("function %s: an adoption to %s has begun", e.Old, e.Name)
}

// UnderWay returns nil, or an *UnderWayError if one of the functions takes part in an adoption that is not finished, under its old name or its new one.
func (s *Store) UnderWay(ctx context.Context, functions ...string) error {
	return s.underWay(ctx, functions, func(Declared) bool { return true })
}

// othersUnderWay returns an *UnderWayError for any other adoption that old or name takes part in.
func (s *Store) othersUnderWay(ctx context.Context, old, name string) error {
	return s.underWay(ctx, []string{old, name}, func(d Declared) bool { return d.Name != old || d.Adopting.To != name })
}

func (s *Store) underWay(ctx context.Context, functions []string, counts func(Declared) bool) error {
	if len(functions) == 0 {
		return nil
	}
	known, err := s.DeclaredNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range known {
		d, err := s.Declared(ctx, name)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if d.Adopting != nil && counts(d) && (slices.Contains(functions, d.Name) || slices.Contains(functions, d.Adopting.To)) {
			return &UnderWayError{Old: d.Name, Name: d.Adopting.To}
		}
	}
	return nil
}

// beginAdoption writes down what is going to happen, before anything does. One that has begun keeps who began it, and when.
func (s *Store) beginAdoption(ctx context.Context, d Declared, a Adoption) (Declared, error) {
	if d.Adopting != nil {
		return d, nil
	}
	d.Adopting = &Adopting{To: a.Name, By: cutText(a.By, maxRecordBrief), Reason: cutText(a.Reason, maxRecordText), At: time.Now().UTC()}
	return d, s.Declare(ctx, d)
}

// auditAdopted writes the audit entry of an adoption that has come to its end, unless a try that was cut behind it has. Nothing else happens to the
// new name until then, so that its newest entry would be this one.
func (s *Store) auditAdopted(ctx context.Context, d Declared) error {
	entry := AuditEntry{
		Action: "adopted", Function: d.Adopting.To, By: d.Adopting.By, Reason: d.Adopting.Reason, At: d.Adopting.At, Detail: map[string]string{"from": d.Name},
	}
	last, err := s.Last(ctx, AuditStream, AuditSubject(entry.Function))
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case last.Header.Get("ce-id") == entry.id():
		return nil
	}
	return s.Audit(ctx, entry)
}
