package parser

import (
	"bytes"
	"net/netip"
	"time"
)

// haproxy is the preset "haproxy": the HTTP log format of "option httplog",
// bare or behind a syslog header, and that of "option httpslog", which has a
// few fields of TLS behind it:
//
//	client_ip:port [accept_date] frontend backend/server timers status bytes … "request"
//	… "request" error/error/… name/TLSv1.3/cipher
//
// Peer: client_ip, the connection's other end or what a PROXY protocol header
// says (accept-proxy). Forwarding header: none; captured headers stand in
// braces without their names. Lines of other kinds (option tcplog, "Connect
// from", failed handshakes) are malformed.
//
// The time is when the connection was accepted, or on a connection that
// carries several requests when this one began to arrive, in HAProxy's local
// zone and without an offset; see [localClock].
//
// Address, time, status and bytes stand before anything a client writes; for
// the request see haproxyRequest. One that HAProxy cut ("len" of the log line,
// 1024 by default) has no closing quote.
//
// Target has #HH decoded, or else it would seem to be the beginning of a
// fragment, behind which a client could hide a path. It is then in a buffer of
// the Format and valid until the next Parse. The buffer never outgrows the
// longest line.
//
// Source: HAProxy's configuration manual, "HTTP log format" and "Logging".
type haproxy struct {
	clock haproxyClock
	buf   []byte
	bare  bareTarget
}

func newHAProxy(zone *time.Location, now time.Time) *haproxy {
	if zone == nil {
		zone = time.Local
	}
	return &haproxy{clock: haproxyClock{local: newLocalClock(zone, now)}}
}

func (f *haproxy) Fields() Fields {
	return FieldTime | FieldPeer | fieldRequest | FieldStatus | FieldBytes
}

var errFrontend = &MalformedError{"frontend"}

func (f *haproxy) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = trimLine(line)
	if len(line) == 0 || line[0] == '#' {
		return ErrNotMine
	}
	word, rest := field(line)
	var ok bool
	if ev.Peer, ok = parseAddrPort(word); !ok {
		word, rest = field(trimSyslog(line))
		if ev.Peer, ok = parseAddrPort(word); !ok {
			return errAddress
		}
	}
	const end = 1 + haproxyTimeLen
	if len(rest) < end+2 || rest[0] != '[' || rest[end] != ']' || rest[end+1] != ' ' {
		return errTime
	}
	if ev.Time, ok = f.clock.parse(rest[1:end]); !ok {
		return errTime
	}
	if err := parseHAProxyTail(rest[end+2:], ev); err != nil {
		return err
	}
	ev.Target = f.bare.escape(f.decode(ev.Target))
	return nil
}

// decode undoes HAProxy's encoding of a value: #HH for every byte that could
// be mistaken, "#" among them.
func (f *haproxy) decode(b []byte) []byte {
	i := bytes.IndexByte(b, '#')
	if i < 0 {
		return b
	}
	f.buf = f.buf[:0]
	for ; i >= 0; i = bytes.IndexByte(b, '#') {
		f.buf = append(f.buf, b[:i]...)
		if c, ok := hexDigits(b[i+1:], 2); ok {
			f.buf = append(f.buf, byte(c))
			b = b[i+3:]
		} else {
			f.buf = append(f.buf, '#')
			b = b[i+1:]
		}
	}
	f.buf = append(f.buf, b...)
	return f.buf
}

// parseHAProxyTail reads what follows the time.
func parseHAProxyTail(b []byte, ev *Event) error {
	frontend, b := field(b)
	server, b := field(b)
	timers, b := field(b)
	if len(frontend) == 0 || bytes.IndexByte(server, '/') < 0 || bytes.Count(timers, []byte("/")) < 3 {
		return errFrontend
	}
	status, b := field(b)
	if string(status) != "-1" && (len(status) != 3 || !fillStatus(status, ev)) { // -1: no answer at all
		return errStatus
	}
	size, b := field(b)
	// A plus: logged before the end (option logasap).
	if b == nil || !fillBytes(bytes.TrimPrefix(size, []byte("+")), ev) {
		return errBytes
	}
	request, whole := haproxyRequest(b)
	if request == nil {
		if ev.Partial {
			return nil
		}
		return errRequest
	}
	ev.Partial = ev.Partial || !whole
	if string(request) != "<BADREQ>" { // could not be read
		splitRequest(request, ev)
	}
	return nil
}

// haproxyRequest returns the text of the request. HAProxy writes a quote in it,
// and in the headers captured before it, as #22. Where no cookie is captured
// ("- -"), the first quote is therefore the request's; behind its closing quote
// the server's name that a client of TLS asked for can stand as it was sent. A
// captured cookie is written as it was sent as well: then the request is what
// is between the last two quotes. The text is nil if there is none.
func haproxyRequest(b []byte) (text []byte, whole bool) {
	if !bytes.HasPrefix(b, []byte("- - ")) {
		return lastQuoted(b)
	}
	i := bytes.IndexByte(b, '"')
	if i < 1 || b[i-1] != ' ' {
		return nil, false
	}
	text = b[i+1:]
	if i = bytes.IndexByte(text, '"'); i < 0 {
		return text, false
	}
	if tail := text[i+1:]; len(tail) > 0 && tail[0] != ' ' {
		return nil, false
	}
	return text[:i], true
}

// lastQuoted returns the text between the last two quotes of b or, if b does
// not end with a quote, behind the last one. The opening quote follows a
// blank. The text is nil if there is none.
func lastQuoted(b []byte) (text []byte, whole bool) {
	if n := len(b) - 1; n > 0 && b[n] == '"' && b[n-1] != ' ' {
		b, whole = b[:n], true
	}
	i := bytes.LastIndexByte(b, '"')
	if i < 1 || b[i-1] != ' ' {
		return nil, false
	}
	return b[i+1:], whole
}

// parseAddrPort reads an address, a colon and a port, without brackets.
func parseAddrPort(b []byte) (a netip.Addr, ok bool) {
	i := bytes.LastIndexByte(b, ':')
	if i < 0 || !isPort(b[i:]) {
		return a, false
	}
	return ParseAddr(b[:i])
}

// trimSyslog takes the header of RFC 5424 or RFC 3164 off a line, the latter
// with a time of either RFC and with or without a priority. A line without
// one comes back as it is or shortened to what is no record either.
func trimSyslog(b []byte) []byte {
	if len(b) > 0 && b[0] == '<' {
		i := bytes.IndexByte(b, '>')
		if i < 2 || i > len("<191") {
			return b
		}
		if _, ok := digits(b[1:i]); !ok {
			return b
		}
		b = b[i+1:]
		if bytes.HasPrefix(b, []byte("1 ")) {
			return skipWords(b, 7) // version time host app process message-id data
		}
	}
	const stamp = len("Jan _2 15:04:05 ")
	if len(b) > stamp && month(b[:3]) != 0 && b[3] == ' ' && b[stamp-1] == ' ' {
		b = b[stamp:]
	} else {
		b = skipWords(b, 1)
	}
	tag, rest := field(skipWords(b, 1)) // behind the host
	if len(tag) == 0 || tag[len(tag)-1] != ':' {
		return b
	}
	return rest
}

// skipWords takes n words and the blanks behind them off b.
func skipWords(b []byte, n int) []byte {
	for range n {
		_, b = field(b)
	}
	return b
}
