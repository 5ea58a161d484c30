package daemon

import "time"

const (
	// silentTimes is how many times longer than its longest pause so far a log
	// must be silent to be spoken of.
	silentTimes = 10

	// silentLeast is the shortest silence that is spoken of.
	silentLeast = time.Hour

	// silentLines is how many lines tell what is usual.
	silentLines = 1000
)

// silence notices a log that is silent far longer than it ever was: its server
// may write elsewhere by now.
type silence struct {
	lines  uint64
	last   time.Time     // when a line was read
	pause  time.Duration // the longest between two
	silent bool
}

// add notes lines.
func (s *silence) add(now time.Time, lines uint64) {
	if !s.last.IsZero() {
		s.pause = max(s.pause, now.Sub(s.last))
	}
	s.last = now
	s.lines += lines
}

// look reports whether the log has become silent, or is no longer.
func (s *silence) look(now time.Time) (changed bool) {
	before := s.silent
	s.silent = s.lines >= silentLines && now.Sub(s.last) > max(silentLeast, silentTimes*s.pause)
	return s.silent != before
}
