package parser

// timeForm is the form of a format's timestamps, with a memory of the last
// one: most lines of a log share their second with the line before.
type timeForm struct {
	kind   timeKind
	unit   int64        // timeEpoch: nanoseconds per unit
	layout []layoutItem // timeLayout
	has    timeParts
	local  *localClock // for times without an offset or a year

	clf  clfClock // timeCLF
	last timeMemo // the other kinds
}

type timeKind uint8

const (
	timeCLF     timeKind = iota // 29/Nov/2026:16:51:36 -0330
	timeBracket                 // the same in brackets
	timeISO                     // 2026-11-29T16:51:36-03:30, see parseISO
	timeEpoch                   // a number since 1970, perhaps with a fraction
	timeLayout                  // a strftime form
)

// timeMemo remembers the last text and what it means.
type timeMemo struct {
	text [64]byte
	n    int // of text; 0: nothing remembered
	ns   int64
}

func clfForm() *timeForm     { return &timeForm{kind: timeCLF, has: partsInstant} }
func bracketForm() *timeForm { return &timeForm{kind: timeBracket, has: partsInstant} }
func isoForm() *timeForm     { return &timeForm{kind: timeISO, has: partsInstant} }
func epochForm(unit int64) *timeForm {
	return &timeForm{kind: timeEpoch, unit: unit, has: partsInstant}
}

// timeVariable makes the variable for a timestamp.
func timeVariable(f *timeForm) *variable {
	return &variable{role: roleTime, rank: f.rank(), time: f, word: !f.hasFixedLen(), fixed: f.fixedLen(), class: f.class()}
}

// rank prefers times that need nothing else to be an instant.
func (f *timeForm) rank() int {
	switch {
	case f.has&partsInstant == partsInstant:
		return 3
	case f.has&partsLocal == partsLocal:
		return 2
	case f.has&partsLocal == partsLocal&^partYear:
		return 1
	}
	return 0
}

func (f *timeForm) hasFixedLen() bool { return f.kind != timeISO && f.kind != timeEpoch }

// fixedLen returns the length of every timestamp of the form, 0 if it varies.
func (f *timeForm) fixedLen() int {
	switch f.kind {
	case timeCLF:
		return clfTimeLen
	case timeBracket:
		return clfTimeLen + 2
	case timeLayout:
		n := 0
		for _, it := range f.layout {
			n += it.width()
		}
		return n
	}
	return 0
}

// class returns the bytes that a timestamp of the form can hold.
func (f *timeForm) class() class {
	digit := byteSet{}.plus('0', '9')
	switch f.kind {
	case timeISO:
		return class{set: digit.and("TZ:+-.")}
	case timeEpoch:
		return class{set: digit.and(".")}
	case timeLayout:
		set := digit.plus('a', 'z').plus('A', 'Z').and(" +-")
		for _, it := range f.layout {
			if it.op == layoutByte {
				set = set.and(string([]byte{it.lit}))
			}
		}
		return class{set: set}
	}
	return class{set: digit.plus('a', 'z').plus('A', 'Z').and("[]/: +-")}
}

// parse returns the instant in nanoseconds since the epoch.
func (f *timeForm) parse(b []byte) (ns int64, ok bool) {
	switch f.kind {
	case timeBracket:
		if len(b) != clfTimeLen+2 || b[0] != '[' || b[len(b)-1] != ']' {
			return 0, false
		}
		return f.clf.parse(b[1 : len(b)-1])
	case timeCLF:
		if len(b) != clfTimeLen {
			return 0, false
		}
		return f.clf.parse(b)
	}
	m := &f.last
	if m.n > 0 && string(b) == string(m.text[:m.n]) {
		return m.ns, true
	}
	switch f.kind {
	case timeISO:
		ns, ok = parseISO(b, f.local)
	case timeEpoch:
		ns, ok = parseEpoch(b, f.unit)
	default:
		ns, ok = f.parseLayout(b)
	}
	if ok && len(b) <= len(m.text) {
		m.n, m.ns = copy(m.text[:], b), ns
	}
	return ns, ok
}

// wallTime is a date and a time of day, without a zone.
type wallTime struct {
	year, month, day  int
	hour, minute, sec int
	ns                int
}

// valid checks ranges: a second of 60 is a leap second, which the epoch folds
// into the next one; the years are those whose nanoseconds fit 64 bits, with
// room for windows.
func (w *wallTime) valid() bool {
	return w.month >= 1 && w.month <= 12 && w.year >= 1900 && w.year <= 2200 &&
		w.day >= 1 && w.day <= daysIn(w.year, w.month) &&
		w.hour <= 23 && w.minute <= 59 && w.sec <= 60
}

// at returns the instant at an offset from UTC, in seconds.
func (w *wallTime) at(offset int) int64 {
	return (w.local()-int64(offset))*1e9 + int64(w.ns)
}

// in returns the instant at which the clocks showed it.
func (w *wallTime) in(c *localClock) int64 {
	return c.instant(w.local())*1e9 + int64(w.ns)
}

// local returns the seconds since the epoch that it would be in UTC.
func (w *wallTime) local() int64 {
	return int64(daysSinceEpoch(w.year, w.month, w.day))*86400 + int64(w.hour*3600+w.minute*60+w.sec)
}

// parseISO reads "2026-11-29T16:51:36" in the extended form of ISO 8601, with
// "T" or a blank between date and time, perhaps a fraction behind "." or ",",
// and "Z", ±HH:MM, ±HHMM, ±HH, or nothing if local is not nil. b must hold
// nothing else.
func parseISO(b []byte, local *localClock) (ns int64, ok bool) {
	if len(b) < 19 || b[4] != '-' || b[7] != '-' || b[10] != 'T' && b[10] != ' ' || b[13] != ':' || b[16] != ':' {
		return 0, false
	}
	var w wallTime
	all := true
	for _, p := range [...]struct {
		to       *int
		from, up int
	}{{&w.year, 0, 4}, {&w.month, 5, 7}, {&w.day, 8, 10}, {&w.hour, 11, 13}, {&w.minute, 14, 16}, {&w.sec, 17, 19}} {
		n, ok := digits(b[p.from:p.up])
		*p.to, all = n, all && ok
	}
	if !all || !w.valid() {
		return 0, false
	}
	b = b[19:]
	if len(b) > 0 && (b[0] == '.' || b[0] == ',') {
		n := 1
		for n < len(b) && '0' <= b[n] && b[n] <= '9' {
			n++
		}
		if n == 1 {
			return 0, false
		}
		w.ns, b = fraction(b[1:n]), b[n:]
	}
	switch {
	case len(b) == 0:
		if local == nil {
			return 0, false
		}
		return w.in(local), true
	case len(b) == 1 && (b[0] == 'Z' || b[0] == 'z'):
		return w.at(0), true
	}
	offset, ok := parseOffset(b)
	return w.at(offset), ok
}

// fraction reads decimals as nanoseconds; what is finer is cut.
func fraction(b []byte) int {
	ns := 0
	for i := range 9 {
		ns *= 10
		if i < len(b) {
			ns += int(b[i] - '0')
		}
	}
	return ns
}

// parseOffset reads ±HH:MM, ±HHMM or ±HH as seconds east of UTC.
func parseOffset(b []byte) (seconds int, ok bool) {
	if len(b) != 3 && len(b) != 5 && len(b) != 6 {
		return 0, false
	}
	h, ok := digits(b[1:3])
	m := 0
	if ok && len(b) == 5 {
		m, ok = digits(b[3:])
	} else if ok && len(b) == 6 {
		m, ok = digits(b[4:])
		ok = ok && b[3] == ':'
	}
	if !ok || h > 23 || m > 59 {
		return 0, false
	}
	seconds = h*3600 + m*60
	switch b[0] {
	case '+':
		return seconds, true
	case '-':
		return -seconds, true
	}
	return 0, false
}

// The counts of seconds that are taken for times: from the year 2000 to 2200.
// Smaller ones are mostly counts of something else, or in a larger unit than
// the format says.
const (
	minEpoch = 946684800
	maxEpoch = 7258118400
)

// parseEpoch reads a number of units since 1970, perhaps with decimals.
func parseEpoch(b []byte, unit int64) (ns int64, ok bool) {
	whole, part := b, []byte(nil)
	for i, c := range b {
		if c == '.' {
			whole, part = b[:i], b[i+1:]
			if len(part) == 0 {
				return 0, false
			}
			break
		}
	}
	if len(whole) == 0 || len(whole) > 19 {
		return 0, false
	}
	n, ok := digits(whole)
	if _, decimals := digits(part); !ok || !decimals || int64(n) < minEpoch*(1e9/unit) || int64(n) > maxEpoch*(1e9/unit) {
		return 0, false
	}
	return int64(n)*unit + int64(fraction(part))*unit/1e9, true
}
