package parser

import "bytes"

// gunicorn is the preset "gunicorn", gunicorn's access log as it is by default:
//
//	access_log_format = '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s"'
//
// It looks like the combined format, but of a backslash that a client sends
// nothing is seen: only quotes are written with one before them. So a quote
// behind a backslash is the client's where it can be, in a request; that ends
// with the protocol. Between referer and agent is the first `" "`, behind the
// agent the last quote.
//
// Peer: %(h)s, the connection's other end. Forwarding header: none.
//
// The user's name is written as it was sent, with its line feeds: with the
// default, a client can write a line with any address. Take %(u)s out, leaving
// a dash in its place.
//
// Source: gunicorn's manual, "access_log_format", and its logger
// (gunicorn/glogging.py).
type gunicorn struct {
	clf clf
	buf []byte // a target with backslashes
}

func (f *gunicorn) Fields() Fields { return fieldsCombined }

func (f *gunicorn) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = trimLine(line)
	if len(line) == 0 || line[0] == '#' {
		return ErrNotMine
	}
	word, rest := field(line)
	var ok bool
	if ev.Peer, ok = ParseAddr(word); !ok {
		return errAddress
	}
	rest, err := f.clf.parseUserTime(rest, ev)
	if err != nil {
		return err
	}
	request, tail, ok := bareQuoted(rest[1:])
	splitRequest(request, ev)
	ev.Target = f.escape(ev.Target)
	switch {
	case !ok && !cut:
		return errRequest
	case !ok:
		return nil
	}
	if err := parseGunicornTail(tail, ev); err != nil && !cut {
		return err
	}
	return nil
}

// escape doubles the backslashes of a target but those that gunicorn has put
// before a quote; see [bareTarget].
func (f *gunicorn) escape(target []byte) []byte {
	if bytes.IndexByte(target, '\\') < 0 {
		return target
	}
	f.buf = f.buf[:0]
	for i, c := range target {
		if c == '\\' && (i+1 == len(target) || target[i+1] != '"') {
			f.buf = append(f.buf, c)
		}
		f.buf = append(f.buf, c)
	}
	return f.buf
}

// bareQuoted splits b behind the first quote that is not behind a backslash.
func bareQuoted(b []byte) (text, rest []byte, ok bool) {
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return b, nil, false
		}
		if i += from; i == 0 || b[i-1] != '\\' {
			return b[:i], b[i+1:], true
		}
		from = i + 1
	}
}

func parseGunicornTail(b []byte, ev *Event) error {
	blank, b := field(b)
	status, b := field(b)
	if len(blank) > 0 || b == nil || !fillStatus(status, ev) {
		return errStatus
	}
	size, b := field(b)
	if b == nil || !fillBytes(size, ev) {
		return errBytes
	}
	if ev.Partial { // of two values, perhaps half, none is known
		return nil
	}
	if n := len(b) - 1; n < 1 || b[0] != '"' || b[n] != '"' {
		return errAgent
	}
	referer, agent, ok := bytes.Cut(b[1:len(b)-1], []byte(`" "`))
	if !ok {
		return errReferer
	}
	ev.Referer, ev.Agent = dashNil(referer), dashNil(agent)
	return nil
}
