package parser

import "bytes"

// The parts of a line that can be wrong, as the errors parsers return.
var (
	errAddress = &MalformedError{"address"}
	errUser    = &MalformedError{"user"}
	errTime    = &MalformedError{"time"}
	errRequest = &MalformedError{"request"}
	errStatus  = &MalformedError{"status"}
	errBytes   = &MalformedError{"bytes"}
	errReferer = &MalformedError{"referer"}
	errAgent   = &MalformedError{"agent"}
	errForward = &MalformedError{"forwarding header"}
)

// clf parses the family of the Common Log Format:
//
//	addr ident user [time] "request" status bytes
//	… "referer" "agent"                               combined
//	… "forwarding header"                             nginx's stock "main"
//
// Sources: Apache mod_log_config ("%h %l %u %t \"%r\" %>s %b" and the
// combined format), nginx ngx_http_log_module (combined; the "main" format
// of the stock nginx.conf).
//
// What a server writes after the last field is ignored if a blank separates
// it. The time is found from its end: `] "` cannot occur before it, since
// both servers escape a quote in the user name, while "[" can.
type clf struct {
	fields clfFields
	clock  clfClock
}

type clfFields uint8

const (
	clfCommon clfFields = iota
	clfCombined
	clfForward
)

func (f *clf) Fields() Fields {
	fields := FieldTime | FieldPeer | fieldRequest | FieldStatus | FieldBytes | FieldUser
	if f.fields >= clfCombined {
		fields |= FieldReferer | FieldAgent
	}
	if f.fields >= clfForward {
		fields |= FieldForward
	}
	return fields
}

func (f *clf) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = trimLine(line)
	if len(line) == 0 || line[0] == '#' {
		return ErrNotMine
	}
	if !cut { // of which the end is missing
		if f.usual(line, ev) {
			return nil
		}
		*ev = Event{Bytes: -1}
	}
	return f.read(line, cut, ev)
}

// read reads any line.
func (f *clf) read(line []byte, cut bool, ev *Event) error {
	i := bytes.IndexByte(line, ' ')
	if i <= 0 {
		return errAddress
	}
	peer, ok := ParseAddr(line[:i])
	if !ok {
		return errAddress
	}
	ev.Peer = peer

	rest, err := f.parseUserTime(line[i+1:], ev)
	if err != nil {
		return err
	}
	request, tail, ok := quoted(rest)
	if !ok {
		if !cut {
			return errRequest
		}
		request = rest[1:]
	}
	splitRequest(request, ev)
	if err := f.parseTail(tail, ev); err != nil && !cut {
		return err
	}
	return nil
}

// parseUserTime reads `ident user [time] ` and returns what follows, which
// begins with the request's quote.
func (f *clf) parseUserTime(b []byte, ev *Event) ([]byte, error) {
	// Nearly always both are "-".
	const dashes = "- - ["
	end := len(dashes) + clfTimeLen // of the time: where "]" stands
	if !(len(b) > end+2 && string(b[:len(dashes)]) == dashes && string(b[end:end+3]) == `] "`) {
		end = bytes.Index(b, []byte(`] "`))
		if end < clfTimeLen+1 || b[end-clfTimeLen-1] != '[' {
			return nil, errTime
		}
		names := b[:end-clfTimeLen-1]
		ident := bytes.IndexByte(names, ' ')
		if ident <= 0 || len(names) < ident+3 || names[len(names)-1] != ' ' {
			return nil, errUser
		}
		ev.User = dashNil(names[ident+1 : len(names)-1])
	}
	ns, ok := f.clock.parse(b[end-clfTimeLen : end])
	if !ok {
		return nil, errTime
	}
	ev.Time = ns
	return b[end+2:], nil
}

// parseTail reads what follows the request.
func (f *clf) parseTail(b []byte, ev *Event) error {
	if len(b) < 4 || b[0] != ' ' {
		return errStatus
	}
	b = b[1:]
	word, b := field(b)
	switch n, ok := digits(word); {
	case string(word) == "-":
	case len(word) == 3 && ok:
		ev.Status = n
	default:
		return errStatus
	}
	word, b = field(b)
	switch n, ok := digits(word); {
	case string(word) == "-":
	case ev.Partial && b == nil: // perhaps only half of it
		return errBytes
	case len(word) > 0 && len(word) <= 18 && ok:
		ev.Bytes = int64(n)
	default:
		return errBytes
	}
	if f.fields == clfCommon {
		return nil
	}
	text, b, ok := quoted(b)
	ev.Referer = dashNil(text)
	if !ok || len(b) == 0 || b[0] != ' ' {
		return errReferer
	}
	text, b, ok = quoted(b[1:])
	ev.Agent = dashNil(text)
	if !ok || len(b) > 0 && b[0] != ' ' {
		return errAgent
	}
	if f.fields == clfCombined {
		return nil
	}
	if len(b) == 0 {
		return errForward
	}
	text, b, ok = quoted(b[1:])
	ev.Forward = dashNil(text)
	if !ok || len(b) > 0 && b[0] != ' ' {
		return errForward
	}
	return nil
}

// trimLine takes off what surrounds a record without being part of it: a
// byte order mark, the NULs that a truncated and regrown file begins with, a
// carriage return.
func trimLine(b []byte) []byte {
	for len(b) > 0 && b[0] == 0 {
		b = b[1:]
	}
	if len(b) >= 3 && b[0] == 0xEF && b[1] == 0xBB && b[2] == 0xBF {
		b = b[3:]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}

// field splits b at its first blank, which is dropped.
func field(b []byte) (word, rest []byte) {
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// quoted splits b, which must begin with a quote, behind the closing quote:
// the first one that is not escaped by a backslash. nginx writes no raw quote
// or backslash inside (both become \xHH); Apache writes \" and \\.
func quoted(b []byte) (text, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return nil, nil, false
	}
	b = b[1:]
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return nil, nil, false
		}
		i += from
		back := 0
		for back < i && b[i-1-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			return b[:i], b[i+1:], true
		}
		from = i + 1
	}
}

// splitRequest takes a request line apart. Bytes that are no request (a TLS
// hello, a port scan) become the target, without a method.
func splitRequest(b []byte, ev *Event) {
	if len(b) == 0 || len(b) == 1 && b[0] == '-' {
		return
	}
	i := bytes.IndexByte(b, ' ')
	if i <= 0 || !isToken(b[:i]) {
		ev.Target = b
		return
	}
	ev.Method, b = b[:i], b[i+1:]
	if j := bytes.LastIndexByte(b, ' '); j >= 0 && bytes.HasPrefix(b[j+1:], []byte("HTTP/")) {
		ev.Proto, b = b[j+1:], b[:j]
	}
	ev.Target = b
}

// isToken reports whether b may be a method: a token of RFC 9110, section
// 5.6.2. Apache passes any of them on.
func isToken(b []byte) bool {
	for _, c := range b {
		if !('A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' ||
			bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0) {
			return false
		}
	}
	return true
}

func dashNil(b []byte) []byte {
	if len(b) == 1 && b[0] == '-' {
		return nil
	}
	return b
}
