package daemon

import "time"

const (
	perSecond = 50        // bans logged one by one
	sameAgain = time.Hour // before the same refusal is said again
	maxSaid   = 1024
)

// sayer keeps our own log from growing as fast as an attacker likes.
type sayer struct {
	second  int64
	n       int
	skipped int
	last    map[string]time.Time
}

func newSayer() *sayer { return &sayer{last: map[string]time.Time{}} }

// allow reports whether one more message may be logged now, and how many
// were not in the seconds before.
func (s *sayer) allow(now time.Time) (ok bool, skipped int) {
	if now.Unix() != s.second {
		skipped = s.rest(now)
	}
	if s.n >= perSecond {
		s.skipped++
		return false, skipped
	}
	s.n++
	return true, skipped
}

// rest returns how many messages were not logged since it was last asked, and
// begins a new second.
func (s *sayer) rest(now time.Time) (skipped int) {
	skipped = s.skipped
	s.second, s.n, s.skipped = now.Unix(), 0, 0
	return skipped
}

// once reports whether what key stands for has not been said for an hour, as
// far as is remembered: too many keys are forgotten all at once.
func (s *sayer) once(key string, now time.Time) bool {
	if t, ok := s.last[key]; ok && now.Sub(t) < sameAgain {
		return false
	}
	if len(s.last) >= maxSaid {
		clear(s.last)
	}
	s.last[key] = now
	return true
}
