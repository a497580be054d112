package runtime

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"
	_ "time/tzdata" // windows may be in any time zone, also where the system knows none

	"github.com/lmittmann/tint"

	"github.com/siding-dev/siding/functions"
	"github.com/siding-dev/siding/runtime/internal/cli"
	"github.com/siding-dev/siding/streams"
)

// Main is the whole program of a node that hosts these functions: the server, the store, the HTTP API and every command. It does not
// return. A function that is wrong is an error of the program: it is printed, and the exit code is 2.
//
// What the functions mean is said here. Their numbers (retry, timeout, concurrency, hold limit) and their owner can be set in the
// configuration, which can also declare functions whose handlers listen at a URL; siding config schema describes it.
func Main(fns ...functions.Function) {
	if err := functions.ValidateAll(fns); err != nil {
		fmt.Fprintf(os.Stderr, "siding: %v\n", err)
		os.Exit(2) //nolint:revive // Main is the caller's main
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	os.Exit(cli.Main(os.Args[1:], cli.Env{ //nolint:revive // Main is the caller's main
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, Version: buildVersion(), Release: release(info),
		Functions: fns, URL: urlFunction, Serve: serve, Exit: os.Exit, Demo: showDemo,
		VerifyBackup: verifyBackup, Restore: restore, Inspect: inspect, Adopt: adopt,
	}))
}

// serve is the command of that name, and what dev runs.
func serve(ctx context.Context, o cli.ServeOptions) error {
	log := newLog(os.Stderr, o.LogFormat, o.LogLevel)
	sync, err := streams.ParseSync(o.Sync)
	if err != nil {
		return err
	}
	notify := Notify{Interval: o.Interval, Webhook: o.Webhook}
	if o.Webhook != "" {
		if notify.Secret, err = ParseWebhookSecret(o.Secret); err != nil {
			return err
		}
	}
	r, err := New(Config{
		DataDir: o.DataDir, HTTP: o.HTTP, NATS: o.NATS, Sync: sync, Tokens: o.Tokens, TLS: o.TLS, Insecure: o.Insecure, Logger: log,
		Grace: o.Grace, AckWait: o.AckWait, Chaos: o.Chaos, Notify: notify,
	}, o.Functions...)
	if err != nil {
		return err
	}
	r.process = true
	go func() {
		select {
		case <-r.Ready():
			log.Info("siding is ready", "http", r.HTTPAddr(), "nats", cmp.Or(r.NATSAddr(), "off"), "data_dir", o.DataDir, "functions", len(o.Functions))
			if o.Ready != nil {
				o.Ready(r.HTTPAddr(), r.NATSAddr())
			}
		case <-ctx.Done():
		}
	}()
	return r.Run(ctx)
}

// newLog writes readable lines, coloured on a terminal, or JSON.
func newLog(w *os.File, format string, level slog.Level) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.RFC3339, NoColor: !isTerminal(w)}))
}

// isTerminal reports whether f is a terminal on which colours are welcome.
func isTerminal(f *os.File) bool { return isCharDevice(f) && os.Getenv("NO_COLOR") == "" }

func isCharDevice(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// urlFunction is the handler of a function that the configuration declares.
func urlFunction(url string) functions.Handler { return functions.HTTP(url) }
