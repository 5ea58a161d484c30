package parser

import "bytes"

// squid is the preset "squid", Squid's native access log:
//
//	seconds.millis elapsed client result/status bytes method URL user hierarchy/peer type
//
// Peer: client (%>a), the connection's other end. With
// follow_x_forwarded_for Squid puts there what a header says, unless
// log_uses_indirect_client is off. Forwarding header: none.
//
// Everything in front of the method is Squid's own. Squid writes no blank in
// the URL, unless uri_whitespace allows it: then what follows the blank is not
// in the target. It writes "error:…" for what it could not read.
//
// A line that is longer than 8 KiB is cut by Squid, its line feed as well, so
// that the next one follows on the same line; the first request of the two
// counts.
//
// Source: Squid's manual, "logformat", and its writer of the format
// (src/log/FormatSquidNative.cc).
type squid struct {
	time timeForm
	bare bareTarget
}

func newSquid() *squid { return &squid{time: *epochForm(1e9)} }

func (f *squid) Fields() Fields {
	return FieldTime | FieldPeer | FieldMethod | FieldPath | FieldStatus | FieldBytes | FieldUser
}

func (f *squid) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = trimLine(line)
	if len(line) == 0 || line[0] == '#' {
		return ErrNotMine
	}
	stamp, rest := field(line)
	elapsed, rest := field(bytes.TrimLeft(rest, " "))
	if _, ok := digits(elapsed); !ok || len(elapsed) == 0 {
		return errTime
	}
	client, rest := field(rest)
	var ok bool
	if ev.Peer, ok = ParseAddr(client); !ok || rest == nil { // nil: perhaps not whole
		return errAddress
	}
	if ev.Time, ok = f.time.parse(stamp); !ok || !isDecimal(stamp) {
		return errTime
	}
	result, rest := field(rest)
	size, rest := field(rest)
	i := bytes.LastIndexByte(result, '/')
	if i <= 0 || size == nil || !fillStatus(result[i+1:], ev) {
		return errStatus
	}
	if rest == nil || !fillBytes(size, ev) {
		return errBytes
	}
	method, rest := field(rest)
	if len(method) == 0 || len(rest) == 0 && !cut {
		return errRequest
	}
	ev.Method = dashNil(method)
	url, rest := field(rest)
	ev.Target = f.bare.escape(url)
	if user, after := field(rest); after != nil {
		ev.User = dashNil(user)
	}
	return nil
}

// squidCLF is the presets "squid-common" and "squid-combined", Squid's formats
// of these names:
//
//	client ident user [time] "method URL HTTP/1.1" status bytes result:hierarchy
//	client ident user [time] "method URL HTTP/1.1" status bytes "referer" "agent" result:hierarchy
//
// They are no CLF for hostile requests: Squid writes quotes and backslashes as
// they are in the URL, the referer and the agent. The URL ends at the first blank, the agent at
// the last quote, the referer at the first `" "`. Squid writes "]" as %5D in
// the user's name, so that the time is where the first `] "` is.
//
// Peer, lines that are too long, sources: as for "squid".
type squidCLF struct {
	clf      clf
	combined bool
	bare     bareTarget
}

func (f *squidCLF) Fields() Fields {
	if f.combined {
		return fieldsCombined
	}
	return fieldsCombined &^ (FieldReferer | FieldAgent)
}

func (f *squidCLF) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = trimLine(line)
	if len(line) == 0 || line[0] == '#' {
		return ErrNotMine
	}
	client, rest := field(line)
	var ok bool
	if ev.Peer, ok = ParseAddr(client); !ok {
		return errAddress
	}
	rest, err := f.clf.parseUserTime(rest, ev)
	if err != nil {
		return err
	}
	err = parseSquidRequest(rest[1:], f.combined, ev)
	ev.Target = f.bare.escape(ev.Target)
	if err != nil && !cut {
		return err
	}
	return nil
}

// minSquidCut is the length of a URL behind which a line may have been cut.
const minSquidCut = 4 << 10

// parseSquidRequest reads what follows the request's first quote.
func parseSquidRequest(b []byte, combined bool, ev *Event) error {
	method, b := field(b)
	ev.Method = dashNil(method)
	url, b := field(b)
	ev.Target = url
	proto, b := field(b)
	n := len(proto) - 1
	switch {
	case len(url) > minSquidCut && (n <= 0 || proto[n] != '"'):
		ev.Partial = true
		return nil
	case n <= 0 || proto[n] != '"' || len(method) == 0 || len(url) == 0:
		return errRequest
	}
	ev.Proto = proto[:n]
	status, b := field(b)
	if b == nil || !fillStatus(status, ev) {
		return errStatus
	}
	size, b := field(b)
	if b == nil || !fillBytes(size, ev) {
		return errBytes
	}
	i := bytes.LastIndexByte(b, ' ')
	result := b[i+1:]
	if bytes.IndexByte(result, ':') <= 0 || bytes.IndexByte(result, '"') >= 0 {
		return errTail
	}
	if !combined {
		if i >= 0 {
			return errTail
		}
		return nil
	}
	if i < 4 || b[0] != '"' || b[i-1] != '"' {
		return errAgent
	}
	referer, agent, ok := bytes.Cut(b[1:i-1], []byte(`" "`))
	if !ok {
		return errReferer
	}
	ev.Referer, ev.Agent = dashNil(referer), dashNil(agent)
	return nil
}
