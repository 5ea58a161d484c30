package parser

// haproxyTimeLen is the length of HAProxy's accept date, local time without
// an offset.
const haproxyTimeLen = len("29/Nov/2026:21:23:48.568")

// haproxyClock reads accept dates; see [localClock] for the hour that comes
// twice.
type haproxyClock struct {
	local *localClock

	// The last minute read and where it began, as most lines share it.
	text [haproxyMinuteLen]byte
	unix int64
	ok   bool
}

const haproxyMinuteLen = len("29/Nov/2026:21:23")

// parse returns the instant in nanoseconds since the epoch. b is
// haproxyTimeLen bytes long.
func (c *haproxyClock) parse(b []byte) (ns int64, ok bool) {
	if b[haproxyMinuteLen] != ':' || b[20] != '.' {
		return 0, false
	}
	sec, ok1 := digits(b[18:20])
	ms, ok2 := digits(b[21:24])
	if !ok1 || !ok2 || sec > 60 {
		return 0, false
	}
	if minute := b[:haproxyMinuteLen]; !c.ok || string(minute) != string(c.text[:]) {
		local, ok := parseLocalMinute(minute)
		if !ok {
			return 0, false
		}
		c.unix, c.ok = c.local.instant(local), true
		copy(c.text[:], minute)
	}
	return (c.unix+int64(sec))*1e9 + int64(ms)*1e6, true
}

// parseLocalMinute reads a date, hour and minute, and returns the seconds
// since the epoch that it would be in UTC.
func parseLocalMinute(b []byte) (sec int64, ok bool) {
	if b[2] != '/' || b[6] != '/' || b[11] != ':' || b[14] != ':' {
		return 0, false
	}
	day, ok1 := digits(b[0:2])
	month := month(b[3:6])
	year, ok2 := digits(b[7:11])
	hour, ok3 := digits(b[12:14])
	minute, ok4 := digits(b[15:17])
	if !(ok1 && ok2 && ok3 && ok4) || month == 0 || year < 1900 || year > 2200 {
		return 0, false
	}
	if day == 0 || day > daysIn(year, month) || hour > 23 || minute > 59 {
		return 0, false
	}
	return int64(daysSinceEpoch(year, month, day))*86400 + int64(hour*3600+minute*60), true
}
