package state

import "time"

// pace says when the next commit may be made.
type pace struct {
	interval time.Duration
	timer    *time.Timer // runs until rested
	rested   bool        // the pause since the latest commit is over
	failures int         // since the latest success
}

func newPace(interval time.Duration) *pace {
	p := &pace{interval: interval, timer: time.NewTimer(interval), rested: true}
	p.timer.Stop()
	return p
}

func (p *pace) stop() { p.timer.Stop() }

// due reports whether what waits may be committed now. What is urgent skips
// the pause between commits, but not the one after a failure.
func (p *pace) due(urgent bool) bool {
	return p.rested || urgent && p.failures == 0
}

// after starts the pause that follows a commit.
func (p *pace) after(err error) {
	pause := p.interval
	if err == nil {
		p.failures = 0
	} else {
		pause = min(maxRetry, firstRetry<<min(p.failures, 16))
		p.failures++
	}
	p.rested = false
	p.timer.Reset(pause)
}
