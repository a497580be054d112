package e2e_test

import (
	"math/rand/v2"
	"os/exec"
	"testing"
	"time"

	"github.com/siding-dev/siding/e2e/torture"
)

// stopLength is longer than the AckWait of the node: when it goes on, JetStream takes all that runs for lost.
const stopLength = 2500 * time.Millisecond

// kill kills the process and starts it again, and stops it in between, as often as the form says; one kill in four comes while it starts. It returns
// the last process, which is ready, and the slowest start; alive is false if a process ended by itself or did not start.
func (s *storm) kill(t *testing.T, p *process) (last *process, slowest time.Duration, alive bool) {
	random := s.random(0)
	blows := make([]bool, s.form.kills+s.form.stops) // true is a kill
	for i := range s.form.kills {
		blows[i] = true
	}
	random.Shuffle(len(blows), func(i, j int) { blows[i], blows[j] = blows[j], blows[i] })
	mean := s.form.length / time.Duration(len(blows))
	starts := false // nobody has waited for p to be ready
	for _, kill := range blows {
		if kill && starts && random.IntN(4) == 0 {
			live(t, p, randomUpTo(random, 300*time.Millisecond))
		} else if !s.awaitReady(t, p) {
			return p, slowest, false
		} else {
			starts, slowest = false, max(slowest, p.took)
			live(t, p, mean/8+randomUpTo(random, 2*mean-mean/4))
		}
		select {
		case <-p.done:
			t.Errorf("process %d ended by itself: %s", p.pid, p.log())
			return p, slowest, false
		default:
		}
		if !kill {
			s.log.write(t, torture.Line{What: torture.Stopped, PID: p.pid})
			if p.freeze(t, stopLength) {
				s.log.stopped++
			}
			s.log.write(t, torture.Line{What: torture.Resumed, PID: p.pid})
			continue
		}
		p.kill()
		s.log.write(t, torture.Line{What: torture.Killed, PID: p.pid})
		s.log.killed = append(s.log.killed, killed{pid: p.pid, moves: p.said(moveCut)})
		next, err := launch(t, exec.Command(built.node, serveArgs(s.program.dir)...), s.program.env...)
		if err != nil {
			t.Error(err)
			return p, slowest, false
		}
		p, starts = next, true
	}
	if alive = s.awaitReady(t, p); alive {
		slowest = max(slowest, p.took)
	}
	return p, slowest, alive
}

func (s *storm) awaitReady(t *testing.T, p *process) bool {
	if err := p.awaitReady(t.Context()); err != nil {
		t.Error(err)
		return false
	}
	s.url.Store(p.url)
	return true
}

// live waits for d, or for an end before that.
func live(t *testing.T, p *process, d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.done:
	case <-t.Context().Done():
	}
}

func randomUpTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}
