// Command node is a user's program for the black-box tests: the product as runtime.Main makes it, with functions that do what a test
// asks for and write down each call.
//
// NODE_FUNCTIONS is a JSON array of the functions; NODE_CALLS names the file that calls are appended to. NODE_ACK_WAIT and NODE_GRACE are
// durations that no flag sets: with one of them the node is made by runtime.New, and serve is its only command.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime"
)

func main() {
	fns, err := hosted()
	if err == nil {
		if os.Getenv("NODE_ACK_WAIT")+os.Getenv("NODE_GRACE") == "" {
			runtime.Main(fns...)
		}
		err = serve(fns)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

// spec describes one function.
type spec struct {
	Name        string          `json:"name"`
	Types       []string        `json:"types"`
	Beginning   bool            `json:"beginning"`
	Attempts    int             `json:"attempts"`
	Delays      []time.Duration `json:"delays"`
	Timeout     time.Duration   `json:"timeout"`
	Concurrency int             `json:"concurrency"`
	OrderBy     string          `json:"order_by"` // as functions.ParseKey reads it; "" is the default
	Breaker     bool            `json:"breaker"`  // suspends as by default; else never
	// Do is the function's script; without one, each event brings its own in its extension "do".
	Do string `json:"do"`
	// URL is where the function's events are posted to instead.
	URL string `json:"url"`
}

// hosted makes the functions that NODE_FUNCTIONS describes.
func hosted() ([]functions.Function, error) {
	var specs []spec
	if err := json.Unmarshal([]byte(cmp.Or(os.Getenv("NODE_FUNCTIONS"), "[]")), &specs); err != nil {
		return nil, fmt.Errorf("NODE_FUNCTIONS: %w", err)
	}
	calls, err := openCalls(os.Getenv("NODE_CALLS"))
	if err != nil {
		return nil, err
	}
	var fns []functions.Function
	for _, s := range specs {
		handle := func(ctx context.Context, e functions.Event, note func(string)) error { return play(ctx, s.Do, e, note) }
		if s.URL != "" {
			post := functions.HTTP(s.URL)
			handle = func(ctx context.Context, e functions.Event, _ func(string)) error { return post(ctx, e) }
		}
		fn := functions.Function{
			Name: s.Name, Types: s.Types, Timeout: s.Timeout, Concurrency: s.Concurrency, Version: "1.0.0",
			Retry: functions.Retry{Attempts: s.Attempts},
			// Scripts fail by the dozen, and nothing else: that would look like an outage.
			Breaker: functions.Breaker{Off: !s.Breaker},
			Handle: func(ctx context.Context, e functions.Event) error {
				return calls.around(ctx, s.Name, e, func(note func(string)) error { return handle(ctx, e, note) })
			},
		}
		if s.OrderBy != "" {
			if fn.OrderBy, err = functions.ParseKey(s.OrderBy); err != nil {
				return nil, fmt.Errorf("NODE_FUNCTIONS: function %s: %w", s.Name, err)
			}
		}
		if len(s.Delays) > 0 {
			fn.Retry.Backoff = functions.Delays(s.Delays...)
		}
		if s.Beginning {
			fn.Start = functions.FromBeginning
		}
		fns = append(fns, fn)
	}
	return fns, nil
}

// serve is the command of that name with more settings.
func serve(fns []functions.Function) error {
	cfg := runtime.Config{Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil))}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&cfg.DataDir, "data-dir", "", "as of siding serve")
	flags.StringVar(&cfg.HTTP, "http", "", "as of siding serve")
	flags.StringVar(&cfg.NATS, "nats", "", "as of siding serve")
	flags.String("log-format", "json", "always json")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	for name, to := range map[string]*time.Duration{"NODE_ACK_WAIT": &cfg.AckWait, "NODE_GRACE": &cfg.Grace} {
		value, err := time.ParseDuration(cmp.Or(os.Getenv(name), "0"))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*to = value
	}
	r, err := runtime.New(cfg, fns...)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		select {
		case <-r.Ready():
			cfg.Logger.Info("siding is ready", "http", r.HTTPAddr(), "nats", r.NATSAddr())
		case <-ctx.Done():
		}
	}()
	return r.Run(ctx)
}
