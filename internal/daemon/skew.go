package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// skewSamples is how many looks at fresh lines must agree.
	skewSamples = 32

	// skewSpread is how far they may be apart: requests that last, and servers
	// that write in blocks.
	skewSpread = 5 * time.Minute

	// skewLeast is how far off times must be to be spoken of: less is no zone,
	// and does no harm to windows.
	skewLeast = 10 * time.Minute
)

// skew compares the times in a log's fresh lines with when they were read. A
// difference that stays the same is a wrong zone, or a wrong clock.
type skew struct {
	offsets [skewSamples]time.Duration // how late the lines seem
	n       int
	alarm   time.Duration // the steady difference; 0: none
}

// add notes a line that was read as soon as it was there.
func (s *skew) add(now time.Time, event int64) {
	s.offsets[s.n%skewSamples] = now.Sub(time.Unix(0, event))
	s.n++
}

// look reports whether the difference has become steady, or other than it was,
// or is over.
func (s *skew) look() (changed bool) {
	before := s.alarm
	s.alarm = s.steady()
	return (s.alarm != 0) != (before != 0)
}

// steady is the difference to the quarter of an hour, as zones have it; 0 if
// there is none.
func (s *skew) steady() time.Duration {
	if s.n < skewSamples {
		return 0
	}
	least, most := slices.Min(s.offsets[:]), slices.Max(s.offsets[:])
	if most-least > skewSpread || max(least, -most) < skewLeast {
		return 0
	}
	return ((least + most) / 2).Round(15 * time.Minute)
}

// skewHint says what to do about a steady difference. zone is that of the
// log's times, nil if they carry their own.
func skewHint(late time.Duration, zone, local *time.Location, now time.Time) string {
	way := "behind"
	if late < 0 {
		way = "ahead of"
	}
	text := fmt.Sprintf("its times are %s %s the clock", late.Abs(), way)
	if zone == nil {
		return text + ": is the clock right on the machine that writes it?"
	}
	_, sec := now.In(zone).Zone()
	offset := time.Duration(sec)*time.Second - late
	where := fmt.Sprintf("%s east of UTC", offset)
	if offset < 0 {
		where = fmt.Sprintf("%s west of UTC", -offset)
	}
	text += ": set timezone to that of the server, which is " + where + " now"
	if name := zoneWith(offset, local, now); name != "" {
		text += fmt.Sprintf(", for example %q", name)
	}
	return text
}

// examples are zones of places, of which the clocks change when theirs do.
var examples = [...]string{
	"UTC", "Europe/London", "Europe/Berlin", "Europe/Athens", "Europe/Moscow",
	"America/Halifax", "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Anchorage", "Pacific/Honolulu",
	"America/Sao_Paulo", "Asia/Dubai", "Asia/Karachi", "Asia/Kolkata", "Asia/Dhaka", "Asia/Bangkok", "Asia/Shanghai", "Asia/Tokyo",
	"Australia/Brisbane", "Australia/Sydney", "Australia/Adelaide", "Pacific/Auckland",
}

// zoneWith names a zone that is so far east of UTC now: the machine's own if it
// is; "" if none is known.
func zoneWith(offset time.Duration, local *time.Location, now time.Time) string {
	if _, sec := now.In(local).Zone(); time.Duration(sec)*time.Second == offset && local.String() != "Local" {
		return local.String()
	}
	for _, name := range examples {
		zone, err := time.LoadLocation(name)
		if err != nil {
			continue // this machine doesn't know it
		}
		if _, sec := now.In(zone).Zone(); time.Duration(sec)*time.Second == offset {
			return name
		}
	}
	return ""
}

// localZone is the machine's zone, with its name where that can be found out.
func localZone() *time.Location {
	if time.Local.String() != "Local" {
		return time.Local
	}
	target, err := os.Readlink("/etc/localtime")
	if err != nil {
		return time.Local
	}
	_, name, ok := strings.Cut(filepath.ToSlash(target), "zoneinfo/")
	if !ok {
		return time.Local
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.Local
	}
	return zone
}
