package parser

import "time"

// localClock turns what the clocks of a zone showed into instants, for times
// that are logged without their offset, or without their year.
//
// Such a time can mean several instants: once a year an hour comes twice, and
// a date without a year comes every year. Of the years, the nearest to the time
// read before is taken. Of the hours, the first one unless that is more than a
// few minutes before the time read before: a log goes on, however long nobody
// came, and what is late in it is so by minutes. With no time before it is the
// last one that is not after now, the moment at which the log is read.
// Of an hour that came twice more than a day ago, or if now is not known, it is
// the first: taking the second for the first makes times jump ahead once, and
// the other way round makes lines late. A time that the spring change skips,
// which no correct clock shows, is read with the offset before the change.
type localClock struct {
	zone *time.Location
	now  int64 // seconds since the epoch; 0: not known, the first of all

	// The minute that was read last: when it began, and how the clocks
	// showed it. Most lines share it.
	unix, local int64
	ok          bool
}

// maxLate is how far back a line may be in an hour that comes twice, in seconds.
const maxLate = 600

// newLocalClock makes a clock for a zone; nil is UTC.
func newLocalClock(zone *time.Location, now time.Time) *localClock {
	c := &localClock{zone: zone}
	if zone == nil {
		c.zone = time.UTC
	}
	if !now.IsZero() {
		c.now = now.Unix()
	}
	return c
}

// instant returns when the clocks of the zone showed local; both are seconds
// since the epoch, local as if the zone were UTC.
func (c *localClock) instant(local int64) int64 {
	if d := local - c.local; c.ok && 0 <= d && d < 60 {
		return c.unix + d
	}
	unix := c.find(local)
	c.saw(unix, local)
	return unix
}

// saw remembers the minute of an instant as the one read last.
func (c *localClock) saw(unix, local int64) {
	s := (local%60 + 60) % 60
	c.unix, c.local, c.ok = unix-s, local-s, true
}

func (c *localClock) find(local int64) int64 {
	// No offset changes twice within the two days around.
	before := local - c.offset(local-86400)
	after := local - c.offset(local+86400)
	isBefore := before+c.offset(before) == local
	isAfter := after+c.offset(after) == local
	switch {
	case isBefore && isAfter && before != after:
		if c.ok && c.unix-before > maxLate || !c.ok && after <= c.now && c.now-after < 86400 {
			return after
		}
		return before
	case isAfter && !isBefore:
		return after
	}
	return before
}

// offset returns how far east of UTC the zone is at an instant, in seconds.
func (c *localClock) offset(unix int64) int64 {
	_, sec := time.Unix(unix, 0).In(c.zone).Zone()
	return int64(sec)
}

// maxYears is how far apart two years can be that have a 29th of February.
const maxYears = 8

// setYear finds the year of a date without one. A clock that is up to a day
// behind the server's makes no last year of today. It reports whether the date
// is one.
func (c *localClock) setYear(w *wallTime) bool {
	near := c.local
	if !c.ok {
		near = c.now + c.offset(c.now)
	}
	best, found := int64(0), 0
	last := time.Unix(near, 0).UTC().Year() + maxYears
	for y := last - 2*maxYears; y <= last; y++ {
		if w.year = y; !w.valid() {
			continue
		}
		if c.ok {
			if d := abs(w.local() - near); found == 0 || d < best {
				best, found = d, y
			}
		} else if w.local() <= near+86400 {
			found = y
		}
	}
	w.year = found
	return found != 0
}

func abs(n int64) int64 { return max(n, -n) }
