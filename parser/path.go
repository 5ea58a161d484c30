package parser

import "bytes"

// AppendPath appends the normalised path of a request target to dst: what
// the server serves, not what was typed. In this order: escapes of the log,
// which an [Event] has, are undone (\xHH as nginx writes, Apache's \" \\ \n and the like, and \u00HH
// of nginx's escape=json), the scheme and authority of the absolute form are taken off, query and fragment
// are cut, percent codes are decoded once, "//" is merged, "." and ".." are
// resolved; ".." above the root stays at the root. A target that is no path
// ("*", an authority, bytes that are no request) is appended without its
// query and otherwise as it is.
//
// Decoding comes before resolving, as in nginx's parsing of complex URIs:
// "/x/%2e%2e/y" is "/y" and "/a%2fb" is "/a/b".
func AppendPath(dst, target []byte) []byte {
	start := len(dst)
	dst = appendUnescaped(dst, target)
	p := dst[start:]
	p, absolute := stripAuthority(p)
	if i := bytes.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	if absolute && len(p) == 0 {
		return append(dst[:start], '/')
	}
	if len(p) == 0 || p[0] != '/' {
		return append(dst[:start], p...)
	}
	p = resolveDots(percentDecode(p))
	return append(dst[:start], p...)
}

// appendUnescaped appends b with the escapes of the log undone. What is no
// escape stays as it is.
func appendUnescaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 || i+1 == len(b) {
			return append(dst, b...)
		}
		dst = append(dst, b[:i]...)
		c := b[i+1]
		if c == 'x' && i+3 < len(b) {
			if hi, lo := unhex(b[i+2]), unhex(b[i+3]); hi >= 0 && lo >= 0 {
				dst = append(dst, byte(hi<<4|lo))
				b = b[i+4:]
				continue
			}
		}
		if c == 'u' {
			if h, ok := hexDigits(b[i+2:], 4); ok && h < ' ' {
				dst = append(dst, byte(h))
				b = b[i+6:]
				continue
			}
		}
		if j := bytes.IndexByte([]byte(`"\bfnrtv`), c); j >= 0 {
			dst = append(dst, "\"\\\b\f\n\r\t\v"[j])
		} else {
			dst = append(dst, '\\', c)
		}
		b = b[i+2:]
	}
}

// bareTarget is a target of a log that leaves backslashes as they are, or whose
// escapes are undone already: they are doubled, so that [AppendPath], which
// undoes escapes, takes them for what they are. Or else a client that sends
// "/x/\x2e\x2e/y" would seem to ask for "/y".
type bareTarget struct{ buf []byte }

// escape returns the target, which is in the buffer if it holds a backslash.
// The buffer never outgrows twice the longest line.
func (t *bareTarget) escape(target []byte) []byte {
	if bytes.IndexByte(target, '\\') < 0 {
		return target
	}
	t.buf = t.buf[:0]
	for _, c := range target {
		if c == '\\' {
			t.buf = append(t.buf, c)
		}
		t.buf = append(t.buf, c)
	}
	return t.buf
}

// stripAuthority takes "scheme://authority" off an absolute-form target (RFC
// 9112, section 3.2.2). The second result says whether there was one.
func stripAuthority(p []byte) ([]byte, bool) {
	if len(p) == 0 || p[0] == '/' { // as nearly all
		return p, false
	}
	i := bytes.IndexByte(p, ':')
	if i <= 0 || len(p) < i+3 || p[i+1] != '/' || p[i+2] != '/' {
		return p, false
	}
	for j, c := range p[:i] {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (j == 0 || !('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return p, false
		}
	}
	p = p[i+3:]
	if j := bytes.IndexAny(p, "/?#"); j >= 0 {
		return p[j:], true
	}
	return p[len(p):], true
}

// percentDecode decodes %HH once, in place.
func percentDecode(p []byte) []byte {
	i := bytes.IndexByte(p, '%')
	if i < 0 {
		return p
	}
	out := p[:i]
	for ; i < len(p); i++ {
		if p[i] == '%' && i+2 < len(p) {
			if hi, lo := unhex(p[i+1]), unhex(p[i+2]); hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		out = append(out, p[i])
	}
	return out
}

// resolveDots merges slashes and resolves "." and "..", in place. p begins
// with a slash.
func resolveDots(p []byte) []byte {
	if !hasDots(p) {
		return p
	}
	out := p[:1] // always ends with the slash before the next segment
	for i := 1; i < len(p); {
		n := bytes.IndexByte(p[i:], '/')
		last := n < 0
		if last {
			n = len(p) - i
		}
		seg := p[i : i+n]
		i += n + 1
		switch {
		case len(seg) == 0 || len(seg) == 1 && seg[0] == '.':
		case len(seg) == 2 && seg[0] == '.' && seg[1] == '.':
			out = out[:bytes.LastIndexByte(out[:len(out)-1], '/')+1]
			if len(out) == 0 {
				out = p[:1]
			}
		default:
			out = append(out, seg...)
			if !last {
				out = append(out, '/')
			}
		}
	}
	return out
}

// hasDots reports whether there are two slashes in a row, or a dot behind one.
func hasDots(p []byte) bool {
	for i, c := range p[min(1, len(p)):] {
		if p[i] == '/' && (c == '/' || c == '.') {
			return true
		}
	}
	return false
}
