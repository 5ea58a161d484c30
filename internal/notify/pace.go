package notify

import "time"

// pace is how many tries there may be in any hour.
type pace struct {
	most  int
	tries []time.Time // of the last hour, oldest first
}

// wait is how long until there may be one more.
func (p *pace) wait(now time.Time) time.Duration {
	p.forget(now)
	if len(p.tries) < p.most {
		return 0
	}
	return p.tries[len(p.tries)-p.most].Add(time.Hour).Sub(now)
}

// note notes a try.
func (p *pace) note(now time.Time) {
	p.forget(now)
	p.tries = append(p.tries, now)
}

func (p *pace) forget(now time.Time) {
	n := 0
	for n < len(p.tries) && now.Sub(p.tries[n]) >= time.Hour {
		n++
	}
	p.tries = append(p.tries[:0], p.tries[n:]...)
}
