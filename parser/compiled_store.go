package parser

import "bytes"

// storeCut takes the beginning of a value whose end is cut off: what is known
// of a request, and a status that is whole.
func (w *walk) storeCut(r role, b []byte) {
	switch {
	case !w.ev.Partial:
	case r == roleTarget:
		w.ev.Target = b
		w.got |= r.field()
	case r == rolePath:
		w.ev.Target = w.c.encode(b)
		w.got |= r.field()
	case r == roleRequest:
		w.store(r, b)
		w.got |= r.field()
	case r == roleStatus && len(b) == 3:
		w.store(r, b)
	}
}

// storeLoose stores a value of which only the first fit is known: a bad one
// makes the field unknown, not the line malformed.
func (w *walk) storeLoose(r role, b []byte) bool {
	w.store(r, b) // leaves the field alone if it is bad
	return true
}

// trimDash takes the dash off that nginx writes for the query that a target
// lacks: "/x-" for $uri$is_args$args. It writes none for the empty query of
// "/x-?#", which can't be told from "/x" then.
func (c *compiled) trimDash(target []byte) []byte {
	if n := len(target) - 1; c.dash && n >= 0 && target[n] == '-' && bytes.IndexByte(target, '?') < 0 {
		return target[:n]
	}
	return target
}

// encode writes a decoded path as a target that [AppendPath] takes for it: a
// percent sign in it is one, and no code. If a query can be logged behind the
// path, it begins at the first "?". The result is in a buffer of the format if
// it is not the same.
func (c *compiled) encode(target []byte) []byte {
	special, path, query := "%#?", target, []byte(nil)
	if c.query {
		special = "%#"
		if i := bytes.IndexByte(target, '?'); i >= 0 {
			path, query = target[:i], target[i:]
		}
	}
	if !bytes.ContainsAny(path, special) {
		return target
	}
	c.buf = c.buf[:0]
	for _, b := range path {
		switch b {
		case '%':
			c.buf = append(c.buf, "%25"...)
		case '#':
			c.buf = append(c.buf, "%23"...)
		case '?':
			c.buf = append(c.buf, "%3F"...)
		default:
			c.buf = append(c.buf, b)
		}
	}
	c.buf = append(c.buf, query...)
	return c.buf
}

// store puts a value into the event; false if it is malformed.
func (w *walk) store(r role, b []byte) bool {
	ev := w.ev
	switch r {
	case roleSkip:
		return true
	case rolePeer:
		a, ok := ParseAddr(b)
		if !ok {
			return false
		}
		ev.Peer = a
	case roleTime:
		ns, ok := w.c.time.parse(b)
		if !ok {
			return false
		}
		ev.Time = ns
	case roleRequest:
		splitRequest(b, ev)
	case roleForward:
		ev.Forward = dashNil(b)
	case roleMethod:
		ev.Method = dashNil(b)
	case roleTarget:
		ev.Target = dashNil(w.c.trimDash(b))
	case rolePath:
		ev.Target = w.c.encode(dashNil(w.c.trimDash(b)))
	case roleProto:
		ev.Proto = dashNil(b)
	case roleHost:
		ev.Host = dashNil(b)
	case roleReferer:
		ev.Referer = dashNil(b)
	case roleAgent:
		ev.Agent = dashNil(b)
	case roleUser:
		ev.User = dashNil(b)
	case roleStatus:
		n, ok := digits(b)
		switch {
		case len(b) == 0 || string(b) == "-":
		case len(b) != 3 || !ok:
			return false
		default:
			ev.Status = n
		}
	case roleBytes:
		if !fillBytes(b, ev) {
			return false
		}
	}
	return true
}
