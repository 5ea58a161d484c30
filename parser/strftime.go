package parser

import "strings"

// timeParts says what a form of time holds.
type timeParts uint16

const (
	partYear timeParts = 1 << iota
	partMonth
	partDay
	partHour
	partMinute
	partSecond
	partFraction
	partOffset
	partHour12 // the hour is one of twelve …
	partHalf   // … of this half of the day

	partsLocal   = partYear | partMonth | partDay | partHour | partMinute | partSecond
	partsInstant = partsLocal | partOffset
)

// layoutItem is one step through a timestamp of fixed width. op is the letter
// of strftime, or one of the two below.
type layoutItem struct {
	op  byte
	lit byte // layoutByte: the byte
}

const (
	layoutByte   = 0   // a literal byte
	layoutMillis = '3' // three decimals
	layoutMicros = '6' // six decimals
)

// width is the length of the item in a timestamp.
func (it layoutItem) width() int {
	switch it.op {
	case layoutByte:
		return 1
	case 'Y':
		return 4
	case 'b', 'a', layoutMillis:
		return 3
	case 'z':
		return 5
	case layoutMicros:
		return 6
	}
	return 2
}

// part is what the item tells.
func (it layoutItem) part() timeParts {
	switch it.op {
	case 'Y', 'y':
		return partYear
	case 'm', 'b':
		return partMonth
	case 'd', 'e':
		return partDay
	case 'H', 'k':
		return partHour
	case 'I', 'l':
		return partHour | partHour12
	case 'p', 'P':
		return partHalf
	case 'M':
		return partMinute
	case 'S':
		return partSecond
	case 'z':
		return partOffset
	case layoutMillis, layoutMicros:
		return partFraction
	}
	return 0
}

// apacheTime returns the form of a %{…}t. Source: mod_log_config, "Format
// String": sec, msec, usec, msec_frac, usec_frac or strftime(3), with begin:
// or end: before it.
func apacheTime(m *mapped, item apacheItem) (*timeForm, error) {
	arg, at := item.arg, item.argAt
	for _, prefix := range []string{"begin:", "end:"} {
		if rest, ok := strings.CutPrefix(arg, prefix); ok {
			arg, at = rest, at+len(prefix)
			break
		}
	}
	switch arg {
	case "":
		return bracketForm(), nil
	case "sec":
		return epochForm(1e9), nil
	case "msec":
		return epochForm(1e6), nil
	case "usec":
		return epochForm(1e3), nil
	case "msec_frac":
		return &timeForm{kind: timeLayout, layout: []layoutItem{{op: layoutMillis}}, has: partFraction}, nil
	case "usec_frac":
		return &timeForm{kind: timeLayout, layout: []layoutItem{{op: layoutMicros}}, has: partFraction}, nil
	case "%s":
		return epochForm(1e9), nil
	}
	return strftimeForm(m, arg, at)
}

// strftimeForm compiles a strftime form; at is where it begins in the text.
func strftimeForm(m *mapped, arg string, at int) (*timeForm, error) {
	f := &timeForm{kind: timeLayout}
	for i := 0; i < len(arg); i++ {
		if arg[i] != '%' {
			f.layout = append(f.layout, layoutItem{lit: arg[i]})
			continue
		}
		i++
		if i == len(arg) {
			return nil, m.fail(at+i-1, at+i, "a percent sign without a letter", "write %% for a plain %")
		}
		expand := ""
		switch c := arg[i]; c {
		case 'Y', 'y', 'm', 'd', 'e', 'H', 'k', 'I', 'l', 'p', 'P', 'M', 'S', 'z', 'a', 'b':
			expand = string([]byte{c})
		case 'h':
			expand = "b"
		case 'T':
			expand = "H:M:S"
		case 'R':
			expand = "H:M"
		case 'F':
			expand = "Y-m-d"
		case 'D':
			expand = "m/d/y"
		case 'r':
			expand = "I:M:S p"
		case 'c': // as in the locale that servers run with
			expand = "a b e H:M:S Y"
		case 't':
			f.layout = append(f.layout, layoutItem{lit: '\t'})
			continue
		case '%':
			f.layout = append(f.layout, layoutItem{lit: '%'})
			continue
		default:
			return nil, m.fail(at+i-1, at+i+1, "this piece of a time cannot be read", strftimeHint(c))
		}
		for j := range len(expand) {
			it := layoutItem{op: expand[j]}
			if strings.IndexByte(":-/ ", expand[j]) >= 0 {
				it = layoutItem{lit: expand[j]}
			}
			if p := it.part(); p != 0 && f.has&p != 0 {
				return nil, m.fail(at+i-1, at+i+1, "this piece of a time is there already", "")
			}
			f.has |= it.part()
			f.layout = append(f.layout, it)
		}
	}
	return f, nil
}

// strftimeHint names a better form.
func strftimeHint(c byte) string {
	switch c {
	case 'Z':
		return "use %z: names of zones are not unique; a server that runs in UTC can write UTC instead, with the log's timezone set to it"
	case '-', '_', '0', '^', '#', 'E', 'O':
		return "use the letter alone, as in %d or %e"
	case 'B', 'A':
		return "use the short form: %b, %a"
	case 's':
		return "use %{sec}t alone"
	}
	return "use %Y-%m-%dT%H:%M:%S%z"
}

// joinsTime reports whether v continues the time before it, across the
// literal lit, as in %{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t: together they say
// more, and no part twice.
func joinsTime(before, v *variable, lit string) bool {
	a, b := before.time, v.time
	if a == nil || b == nil || len(lit) > 3 {
		return false
	}
	if a.kind == timeEpoch && a.unit == 1e9 && a.has&partFraction == 0 && lit == "." {
		return b.has == partFraction
	}
	return a.kind == timeLayout && b.kind == timeLayout && a.has&b.has == 0
}

// joinTime makes one variable of the two.
func joinTime(before, v *variable, lit string) {
	a, b := before.time, v.time
	text := before.text + lit + v.text
	offset := before.offset
	joined := &timeForm{kind: a.kind, unit: a.unit, has: a.has | b.has}
	if a.kind == timeLayout {
		joined.layout = append(joined.layout, a.layout...)
		for i := range len(lit) {
			joined.layout = append(joined.layout, layoutItem{lit: lit[i]})
		}
		joined.layout = append(joined.layout, b.layout...)
	}
	*before = *timeVariable(joined)
	before.text, before.offset = text, offset
}

// parseLayout reads a timestamp of a strftime form that fills b.
func (f *timeForm) parseLayout(b []byte) (ns int64, ok bool) {
	var w wallTime
	offset, noon := 0, false
	for _, it := range f.layout {
		n := it.width()
		if len(b) < n {
			return 0, false
		}
		piece := b[:n]
		b = b[n:]
		switch it.op {
		case layoutByte:
			ok = piece[0] == it.lit
		case 'a':
			ok = isLetter(piece[0]) && isLetter(piece[1]) && isLetter(piece[2])
		case 'b':
			w.month = month(piece)
			ok = w.month > 0
		case 'e', 'k', 'l':
			if piece[0] == ' ' {
				piece = piece[1:]
			}
			ok = w.setNumber(it.op, piece)
		case 'p', 'P':
			noon = piece[0]|0x20 == 'p'
			ok = (noon || piece[0]|0x20 == 'a') && piece[1]|0x20 == 'm'
		case 'z':
			offset, ok = parseOffset(piece)
		default:
			ok = w.setNumber(it.op, piece)
		}
		if !ok {
			return 0, false
		}
	}
	if len(b) != 0 || f.has&partHour12 != 0 && !w.setHalf(noon) {
		return 0, false
	}
	return f.instant(&w, offset)
}

// instant returns when it was w, at an offset if the form has one.
func (f *timeForm) instant(w *wallTime, offset int) (ns int64, ok bool) {
	if f.has&partYear == 0 && !f.local.setYear(w) || !w.valid() {
		return 0, false
	}
	if f.has&partOffset == 0 {
		return w.in(f.local), true
	}
	ns = w.at(offset)
	if f.has&partYear == 0 {
		f.local.saw(ns/1e9, w.local())
	}
	return ns, true
}

// setHalf turns an hour of twelve into one of the day.
func (w *wallTime) setHalf(noon bool) bool {
	if w.hour < 1 || w.hour > 12 {
		return false
	}
	w.hour %= 12
	if noon {
		w.hour += 12
	}
	return true
}

// setNumber sets the part that op names from decimal digits.
func (w *wallTime) setNumber(op byte, b []byte) bool {
	n, ok := digits(b)
	switch op {
	case 'Y':
		w.year = n
	case 'y': // POSIX: 69 to 99 are of the last century
		w.year = 2000 + n
		if n >= 69 {
			w.year = 1900 + n
		}
	case 'm':
		w.month = n
	case 'd', 'e':
		w.day = n
	case 'H', 'k', 'I', 'l':
		w.hour = n
	case 'M':
		w.minute = n
	case 'S':
		w.sec = n
	case layoutMillis, layoutMicros:
		if ok {
			w.ns = fraction(b)
		}
	}
	return ok
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
