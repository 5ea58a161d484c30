package parser

import (
	"bytes"
	"net/netip"
)

// fill turns what the scanner found into an event.
func (f *jsonFormat) fill(ev *Event) error {
	if !f.fillPeer(ev) {
		return errAddress
	}
	got := &f.scan.got
	ns, ok := f.time.parse(got[jsonTimestamp])
	if !ok {
		return errTime
	}
	ev.Time = ns
	// A number where a text belongs is not the format that was described.
	for _, field := range [...]jsonField{jsonForward, jsonRequest, jsonMethod, jsonTarget, jsonProto, jsonHost, jsonReferer, jsonAgent, jsonUser, jsonRecord} {
		if got[field].number {
			return field.malformed()
		}
	}
	if !fillStatus(got[jsonStatus].text, ev) {
		return errStatus
	}
	if !fillBytes(got[jsonBytes].text, ev) {
		return errBytes
	}
	splitRequest(got[jsonRequest].text, ev)
	if !f.whole || ev.Target == nil {
		fillText(&ev.Method, got[jsonMethod].text)
		fillText(&ev.Target, got[jsonTarget].text)
		fillText(&ev.Proto, got[jsonProto].text)
	}
	ev.Target = f.bare.escape(ev.Target)
	fillText(&ev.Forward, got[jsonForward].text)
	if f.rfc != nil {
		ev.Forward = f.rfc.list(ev.Forward)
	}
	fillText(&ev.Host, got[jsonHost].text)
	fillText(&ev.Referer, got[jsonReferer].text)
	fillText(&ev.Agent, got[jsonAgent].text)
	fillText(&ev.User, got[jsonUser].text)
	return nil
}

func (f *jsonFormat) fillPeer(ev *Event) bool {
	v := f.scan.got[jsonPeer]
	if v.text == nil {
		v = f.scan.got[jsonOlder]
	}
	if v.number {
		return false
	}
	a, ok := parsePeer(v.text)
	ev.Peer = a
	return ok
}

// fillText sets a field to what was logged, if that is anything: servers
// write nothing as "" or "-".
func fillText(to *[]byte, text []byte) {
	if len(text) > 0 && string(text) != "-" {
		*to = text
	}
}

func fillStatus(text []byte, ev *Event) bool {
	if len(text) == 0 || string(text) == "-" {
		return true
	}
	n, ok := digits(text)
	if !ok || len(text) > 3 {
		return false
	}
	ev.Status = n
	return true
}

func fillBytes(text []byte, ev *Event) bool {
	if len(text) == 0 || string(text) == "-" {
		return true
	}
	n, ok := digits(text)
	if !ok || len(text) > 18 {
		return false
	}
	ev.Bytes = int64(n)
	return true
}

// parsePeer reads an address as programs log the other end of a connection:
// bare, or with a port as in Go's Request.RemoteAddr.
func parsePeer(b []byte) (a netip.Addr, ok bool) {
	if len(b) > 0 && b[0] == '[' {
		i := bytes.IndexByte(b, ']')
		if i < 0 || i+1 < len(b) && !isPort(b[i+1:]) || bytes.IndexByte(b[:i], ':') < 0 {
			return netip.Addr{}, false
		}
		return ParseAddr(b[1:i])
	}
	if i := bytes.IndexByte(b, ':'); i >= 0 && isPort(b[i:]) {
		b = b[:i]
	}
	return ParseAddr(b)
}
