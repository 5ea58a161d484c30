package parser

import "bytes"

var errTail = &MalformedError{"end of line"}

// traefikCLF is the preset "traefik-clf": Traefik's access log as it is by
// default, with format common:
//
//	host - user [time] "method path protocol" status bytes "referer" "agent" count "router" "server" 12ms
//
// Peer: none is logged. The first word is what the JSON log calls
// ClientHost: the value of X-Forwarded-For as far as the entry point's
// forwardedHeaders let it through, else the peer. So the address is the peer
// only where Traefik trusts no proxy, and anybody's choice with
// forwardedHeaders.insecure; a header with several addresses makes the line
// malformed. Forwarding header: none. Where there is a proxy in front, take
// the JSON log.
//
// Traefik escapes nothing here. A quote in the query can forge what follows
// the path, and a Basic user name the time: the first that looks like one
// counts. Referer and agent are told apart from the ends of the line inwards,
// at the first `" "` between them. None of that can change the address.
//
// Source: Traefik's manual, "Access logs", and its formatter
// (pkg/middlewares/accesslog/logger_formatters.go).
type traefikCLF struct {
	clf  clf
	bare bareTarget
}

func (f *traefikCLF) Fields() Fields { return fieldsCombined }

func (f *traefikCLF) Parse(line []byte, cut bool, ev *Event) error {
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
	request, tail := cutTraefikRequest(rest[1:], ev)
	if request == nil {
		if !cut {
			return errRequest
		}
		splitRequest(rest[1:], ev)
		ev.Target = f.bare.escape(ev.Target)
		return nil
	}
	splitRequest(request, ev)
	ev.Target = f.bare.escape(ev.Target)
	headers, ok := trimTraefikTail(tail)
	if !ok {
		if cut { // of two values, perhaps half, none is known
			return nil
		}
		return errTail
	}
	referer, agent, ok := bytes.Cut(headers, []byte(`" "`))
	if !ok {
		return errAgent
	}
	ev.Referer, ev.Agent = dashNil(referer), dashNil(agent)
	return nil
}

// cutTraefikRequest splits b behind the request, which begins it, and the
// two numbers that follow. tail begins with the referer's text.
func cutTraefikRequest(b []byte, ev *Event) (request, tail []byte) {
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return nil, nil
		}
		i += from
		from = i + 1
		blank, rest := field(b[from:])
		status, rest := field(rest)
		size, rest := field(rest)
		if len(blank) > 0 || len(status) == 0 || len(size) == 0 || len(rest) == 0 || rest[0] != '"' {
			continue
		}
		ev.Status, ev.Bytes = 0, -1
		if fillStatus(status, ev) && fillBytes(size, ev) {
			return b[:i], rest[1:]
		}
	}
}

// trimTraefikTail takes off what follows the agent, from the end inwards.
func trimTraefikTail(b []byte) (rest []byte, ok bool) {
	b, ok = bytes.CutSuffix(b, []byte("ms"))
	if !ok {
		return nil, false
	}
	if b, ok = trimNumber(b); !ok {
		return nil, false
	}
	for range 2 { // server, router
		if b, ok = bytes.CutSuffix(b, []byte(`" `)); !ok {
			return nil, false
		}
		i := bytes.LastIndexByte(b, '"')
		if i < 0 {
			return nil, false
		}
		b = b[:i]
	}
	if b, ok = bytes.CutSuffix(b, []byte(" ")); !ok {
		return nil, false
	}
	if b, ok = trimNumber(b); !ok {
		return nil, false
	}
	return bytes.CutSuffix(b, []byte(`" `))
}

// trimNumber takes digits off the end of b; there must be some.
func trimNumber(b []byte) (rest []byte, ok bool) {
	i := len(b)
	for i > 0 && '0' <= b[i-1] && b[i-1] <= '9' {
		i--
	}
	return b[:i], i < len(b)
}
