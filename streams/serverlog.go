package streams

import (
	"fmt"
	"log/slog"
	"sync/atomic"
)

// serverLog hands the embedded server's log lines to slog and remembers the last fatal one: with a logger of its own
// the server does not exit on a fatal error, it just stays unready, so that line is all there is to tell a person why.
//
// The server's notices are a page of greetings at every start and become debug lines. Its debug and trace lines, one
// for every protocol operation, are dropped.
type serverLog struct {
	log   *slog.Logger
	fatal atomic.Pointer[string]
}

func newServerLog(log *slog.Logger) *serverLog {
	return &serverLog{log: log.With(slog.String("component", "nats"))}
}

// lastFatal returns the last fatal line, or "" if there was none.
func (l *serverLog) lastFatal() string {
	if line := l.fatal.Load(); line != nil {
		return *line
	}
	return ""
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

func (l *serverLog) Fatalf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	l.fatal.Store(&line)
	l.log.Error(line)
}
