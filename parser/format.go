package parser

// Detect guesses the format of a log from some of its lines: the preset that
// parses most of them; of several, the one that finds most in them; of
// several, the one that has most fields. Its second result is the number of
// lines that parse; 0 means that none does.
func Detect(lines [][]byte) (name string, parsed int) {
	names := FormatNames()
	found := 0
	for i := len(names) - 1; i >= 0; i-- {
		f, err := NewFormat(names[i])
		if err != nil {
			continue // cannot be: the names are our own
		}
		p, n := 0, 0
		for _, l := range lines {
			var ev Event
			if f.Parse(l, false, &ev) == nil {
				p++
				n += countFields(&ev)
			}
		}
		if p > parsed || p == parsed && n > found {
			name, parsed, found = names[i], p, n
		}
	}
	return name, parsed
}

// countFields returns how many of the fields hold something that not every
// format has, less those that hold something else.
func countFields(ev *Event) (n int) {
	if ev.Forward != nil {
		// A quoted field of another kind, as nginx's $request_time, is no header.
		n--
		if _, ok := HeaderClient(ev.Forward); ok {
			n += 2
		}
	}
	for _, b := range [...][]byte{ev.Host, ev.Referer, ev.Agent, ev.User} {
		if b != nil {
			n++
		}
	}
	return n
}

// Stateless reports whether what a format says of a line depends on that line
// alone, and its events refer to nothing but the line's own bytes. Of such a
// format lines can be parsed ahead of their turn, by several Formats, and it
// makes no difference.
func Stateless(f Format) bool {
	switch f := f.(type) {
	case *clf, *vhostCombined, *lighttpd, *ingressNginx:
		return true
	case *compiled:
		return f.bare == nil && f.rfc == nil && !f.encodes && f.time != nil && f.time.local == nil
	}
	return false
}
