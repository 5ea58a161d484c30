package parser

import "bytes"

// fieldsCombined is what the combined format has.
const fieldsCombined = FieldTime | FieldPeer | fieldRequest | FieldStatus | FieldBytes | FieldReferer | FieldAgent | FieldUser

// vhostCombined is the preset "vhost_combined": the combined format behind
// the name and port of the virtual host, as Debian's apache2.conf defines it:
//
//	LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined
//
// Peer: %h, the second word; mod_remoteip rewrites it (%{c}a is the peer
// then). Forwarding header: none. The port is required: %v:%p are the
// server's own, while a bare name in front is more often the Host header, in
// which a client could put a blank and an address.
//
// Source: Apache mod_log_config; the apache2 package of Debian.
type vhostCombined struct{ clf clf }

func (f *vhostCombined) Fields() Fields { return fieldsCombined | FieldHost }

func (f *vhostCombined) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = trimLine(line)
	if len(line) == 0 || line[0] == '#' {
		return ErrNotMine
	}
	word, rest := field(line)
	colon := bytes.LastIndexByte(word, ':')
	if colon <= 0 || !isPort(word[colon:]) || len(rest) == 0 || rest[0] == '#' {
		return errHost
	}
	if err := f.clf.Parse(rest, cut, ev); err != nil {
		return err
	}
	ev.Host = dashNil(word[:colon])
	return nil
}

// lighttpd is the preset "lighttpd": the combined format with the requested
// host in the place of the ident, lighttpd's default:
//
//	accesslog.format = "%h %V %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\""
//
// Peer: %h, which mod_extforward rewrites. Forwarding header: none.
//
// Source: lighttpd's manual, mod_accesslog.
type lighttpd struct{ clf clf }

func (f *lighttpd) Fields() Fields { return fieldsCombined | FieldHost }

func (f *lighttpd) Parse(line []byte, cut bool, ev *Event) error {
	if err := f.clf.Parse(line, cut, ev); err != nil {
		return err
	}
	_, rest := field(trimLine(line))
	host, _ := field(rest)
	ev.Host = dashNil(host)
	return nil
}

// ingressNginx is the preset "ingress-nginx": the Kubernetes ingress
// controller's log-format-upstream as it is by default, which is the
// combined format and, behind it, the request's length and time and the
// upstreams:
//
//	… "$http_user_agent" $request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] …
//
// Peer: $remote_addr, which the controller rewrites from the forwarding header
// with use-forwarded-headers, and from the PROXY protocol with
// use-proxy-protocol. Forwarding header: none.
//
// Source: ingress-nginx's manual, "Log format".
type ingressNginx struct{ clf clf }

func (f *ingressNginx) Fields() Fields { return fieldsCombined }

func (f *ingressNginx) Parse(line []byte, cut bool, ev *Event) error {
	if err := f.clf.Parse(line, cut, ev); err != nil || cut {
		return err
	}
	if !endsAsIngress(trimLine(line)) {
		return errUpstream
	}
	return nil
}

var errUpstream = &MalformedError{"upstream"}

// endsAsIngress reports whether what follows the agent's closing quote, the
// last quote of a line, begins with two numbers and a name in brackets.
// nginx writes a quote inside a value as \x22.
func endsAsIngress(line []byte) bool {
	tail := line[bytes.LastIndexByte(line, '"')+1:]
	blank, tail := field(tail)
	length, tail := field(tail)
	took, tail := field(tail)
	_, isLength := digits(length)
	return len(blank) == 0 && len(length) > 0 && isLength && isDecimal(took) && len(tail) > 0 && tail[0] == '['
}

// isDecimal reports whether b is digits with a point among them.
func isDecimal(b []byte) bool {
	whole, fraction, ok := bytes.Cut(b, []byte("."))
	_, ok1 := digits(whole)
	_, ok2 := digits(fraction)
	return ok && ok1 && ok2 && len(whole) > 0 && len(fraction) > 0
}
