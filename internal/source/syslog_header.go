package source

import (
	"bytes"
)

// syslogMessage returns what a syslog message says: the access line, without
// the header of RFC 5424 or RFC 3164 before it. What has no header is returned
// as it is, as is what stands behind the first part of a header that is unlike
// any known.
//
// The second is no strict format. Known are, behind <PRI>:
//
//	Jan _2 15:04:05 HOST TAG: …       nginx
//	Jan _2 15:04:05 TAG: …            nginx with nohostname, glibc's syslog(3), logger
//	Jan _2 15:04:05 HOST TAG[PID]: …  HAProxy
//	2006-01-02T15:04:05.999+02:00 …   rsyslog, with the same behind it
//	…                                 without any of it (RFC 3164, section 4.3.3)
//
// nginx's is in ngx_syslog_add_header of src/core/ngx_syslog.c.
//
// A tag has no colon inside and ends with one, so that an IPv6 address can't be
// taken for one.
func syslogMessage(p []byte) []byte {
	rest, ok := cutPriority(p)
	if !ok {
		return p
	}
	if msg, ok := cut5424(rest); ok {
		return msg
	}
	return cut3164(rest)
}

// cutPriority takes <PRI> off: 0 to 191 (RFC 5424, section 6.2.1).
func cutPriority(p []byte) ([]byte, bool) {
	if len(p) < 3 || p[0] != '<' {
		return p, false
	}
	n := 0
	for i := 1; i < len(p) && i <= 4; i++ {
		switch c := p[i]; {
		case c == '>' && i > 1 && n <= 191:
			return p[i+1:], true
		case c < '0' || c > '9':
			return p, false
		default:
			n = n*10 + int(c-'0')
		}
	}
	return p, false
}

// cut5424 takes off what RFC 5424, section 6, has behind <PRI>: VERSION SP
// TIMESTAMP SP HOSTNAME SP APP-NAME SP PROCID SP MSGID SP STRUCTURED-DATA
// [SP MSG].
func cut5424(p []byte) ([]byte, bool) {
	p, ok := bytes.CutPrefix(p, []byte("1 "))
	if !ok {
		return nil, false
	}
	stamp, p, ok := bytes.Cut(p, space)
	if !ok || !isStamp5424(stamp) {
		return nil, false
	}
	for range 4 {
		var field []byte
		if field, p, ok = bytes.Cut(p, space); !ok || len(field) == 0 {
			return nil, false
		}
	}
	if p, ok = cutStructured(p); !ok {
		return nil, false
	}
	if len(p) == 0 {
		return p, true
	}
	if p[0] != ' ' {
		return nil, false
	}
	return bytes.TrimPrefix(p[1:], []byte("\ufeff")), true
}

var space = []byte{' '}

// cutStructured takes off STRUCTURED-DATA: "-" or elements in brackets, in whose
// quoted values a backslash takes away the meaning of ", \ and ].
func cutStructured(p []byte) ([]byte, bool) {
	if len(p) > 0 && p[0] == '-' {
		return p[1:], true
	}
	elements := 0
	for len(p) > 0 && p[0] == '[' {
		end, quoted := 0, false
		for i := 1; i < len(p) && end == 0; i++ {
			switch c := p[i]; {
			case c == '\\' && quoted:
				i++
			case c == '"':
				quoted = !quoted
			case c == ']' && !quoted:
				end = i + 1
			}
		}
		if end == 0 {
			return nil, false
		}
		p = p[end:]
		elements++
	}
	return p, elements > 0
}

// isStamp5424 reports whether p is "-" or begins as an RFC 3339 time does.
func isStamp5424(p []byte) bool {
	return len(p) == 1 && p[0] == '-' || len(p) >= len("2006-01-02T15:04:05") && like(p, "dddd-dd-ddTdd:dd:dd")
}

// like compares the beginning of p with a pattern: d is a digit, D a digit or a
// space, a a letter.
func like(p []byte, pattern string) bool {
	if len(p) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		c := p[i]
		digit := '0' <= c && c <= '9'
		ok := c == pattern[i]
		switch pattern[i] {
		case 'd':
			ok = digit
		case 'D':
			ok = digit || c == ' '
		case 'a':
			ok = 'a' <= c|0x20 && c|0x20 <= 'z'
		}
		if !ok {
			return false
		}
	}
	return true
}

// cut3164 takes off the time, the host and the tag, as far as they are there.
func cut3164(p []byte) []byte {
	const stamp = "aaa Dd dd:dd:dd "
	switch {
	case like(p, stamp):
		p = p[len(stamp):]
	case like(p, "dddd-dd-ddTdd:dd:dd"):
		var ok bool
		if _, p, ok = bytes.Cut(p, space); !ok {
			return nil
		}
	default:
		msg, _ := cutTag(p)
		return msg
	}
	if msg, ok := cutTag(p); ok {
		return msg
	}
	if _, behindHost, ok := bytes.Cut(p, space); ok {
		if msg, ok := cutTag(behindHost); ok {
			return msg
		}
	}
	return p
}

const maxTag = 64

// cutTag takes off TAG: or TAG[PID]: with a space behind it.
func cutTag(p []byte) ([]byte, bool) {
	i := 0
	for i < len(p) && i < maxTag && isTag(p[i]) {
		i++
	}
	if i == 0 {
		return p, false
	}
	if i < len(p) && p[i] == '[' {
		end := bytes.IndexByte(p[:min(len(p), i+maxTag)], ']')
		if end < 0 {
			return p, false
		}
		i = end + 1
	}
	if i >= len(p) || p[i] != ':' || i+1 < len(p) && p[i+1] != ' ' {
		return p, false
	}
	return p[min(len(p), i+2):], true
}

func isTag(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.' || c == '/'
}
