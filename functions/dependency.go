package functions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Defaults of a [Dependency].
const (
	DefaultCheckEvery   = 5 * time.Second
	DefaultCheckTimeout = 3 * time.Second
)

const maxDependencies = 16

// Dependency is something that a function cannot work without, such as a
// contract system. While its check fails the function begins no attempt, so
// that nothing fails for want of it: neither a first attempt nor a retry, and
// none before the first answer. What runs already goes on.
type Dependency struct {
	// Name is what people see, unique within the function: a letter a to z, then
	// letters, digits and hyphens, at most 63 characters.
	Name string
	// Check returns nil if the dependency is there, else what is wrong. It must
	// return soon after ctx is done; one that does not counts as failed, and is
	// not called again before it has returned. A panic is a failure too. It is called by one
	// goroutine at a time. See HTTPCheck.
	Check func(ctx context.Context) error
	// Every is the time between two checks; 0 is DefaultCheckEvery.
	Every time.Duration
	// Timeout is how long one check may take; 0 is DefaultCheckTimeout.
	Timeout time.Duration
}

// WithDefaults returns d with the default for every field that is zero and has one.
func (d Dependency) WithDefaults() Dependency {
	if d.Every == 0 {
		d.Every = DefaultCheckEvery
	}
	if d.Timeout == 0 {
		d.Timeout = DefaultCheckTimeout
	}
	return d
}

// HTTPCheck makes a check that gets a URL: any status below 500 says that
// whoever answers is there. A redirect is an answer and is not followed. Like [HTTP] it
// panics on what [CheckURL] refuses, and leaves out of its errors what may be
// secret in the URL.
func HTTPCheck(target string) func(context.Context) error {
	if err := CheckURL(target); err != nil {
		panic("functions.HTTPCheck: " + err.Error())
	}
	return httpCheck(target, checkClient())
}

// checkClient keeps no connection: the next check comes later than a server keeps one.
func checkClient() *http.Client {
	c := newHTTPClient()
	if t, ok := c.Transport.(*http.Transport); ok {
		t.DisableKeepAlives = true
	}
	return c
}

func httpCheck(target string, client *http.Client) func(context.Context) error {
	u, _ := url.Parse(target) // CheckURL has parsed it
	shown := shownURL(u)
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
		if err != nil {
			return fmt.Errorf("GET %s: %w", shown, err)
		}
		resp, err := client.Do(req)
		if err != nil {
			if wrapped, ok := errors.AsType[*url.Error](err); ok {
				err = wrapped.Err // its text has the whole URL
			}
			return fmt.Errorf("GET %s: %w", shown, err)
		}
		defer resp.Body.Close()
		if resp.StatusCode >= http.StatusInternalServerError {
			return fmt.Errorf("GET %s: answered %s", shown, resp.Status)
		}
		return nil
	}
}

// dependencyProblems lists what is wrong with ds, each with the field it is about.
func dependencyProblems(ds []Dependency) []problem {
	var ps []problem
	if len(ds) > maxDependencies {
		ps = append(ps, problemf("dependencies", "%d are too many; write at most %d", len(ds), maxDependencies))
	}
	seen := make(map[string]bool, len(ds))
	for i, d := range ds {
		at := func(field string) string { return fmt.Sprintf("dependencies[%d].%s", i, field) }
		if !validName(d.Name) {
			ps = append(ps, problemf(at("name"), "%q is not valid; write a letter a to z, then letters, digits and hyphens, at most %d characters", d.Name, maxNameLen))
		} else if seen[d.Name] {
			ps = append(ps, problemf(at("name"), "%q is there twice; leave one of them", d.Name))
		}
		seen[d.Name] = true
		if d.Check == nil {
			ps = append(ps, problemf(at("check"), "is missing; write HTTPCheck(url) or a func(context.Context) error"))
		}
		if d.Every < 0 {
			ps = append(ps, problemf(at("every"), "%v is negative; write 0 for the default of %v", d.Every, DefaultCheckEvery))
		}
		if d.Timeout < 0 {
			ps = append(ps, problemf(at("timeout"), "%v is negative; write 0 for the default of %v", d.Timeout, DefaultCheckTimeout))
		}
	}
	return ps
}
