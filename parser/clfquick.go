package parser

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// usual reads a line that is as nearly all are: nobody has logged in, nothing
// holds an escape before a quote, status and size are numbers, all fields are
// there. It reports false for any other line, of which ev then holds remains;
// what it reads it reads as [clf.read] does.
//
// It is worth the second way of reading the same: lines are read in half the
// time, mostly since it finds the end of each field once, where the field is
// long, and not at all where it is short.
func (f *clf) usual(line []byte, ev *Event) bool {
	b, ok := quickPeer(line, ev)
	if !ok {
		return false
	}
	// Behind the peer's blank.
	const dashes, timeAt = "- - [", len("- - [")
	const requestAt = timeAt + clfTimeLen + len(`] "`)
	if len(b) < requestAt || string(b[:timeAt]) != dashes || string(b[requestAt-3:requestAt]) != `] "` {
		return false
	}
	if ev.Time, ok = f.clock.parse(b[timeAt : timeAt+clfTimeLen]); !ok {
		return false
	}
	if b, ok = quickRequest(b[requestAt:], ev); !ok {
		return false
	}
	if b, ok = quickNumbers(b, ev); !ok {
		return false
	}
	if f.fields == clfCommon {
		return true
	}
	if ev.Referer, b, ok = quickQuoted(b); !ok || len(b) < 2 || b[0] != ' ' {
		return false
	}
	if ev.Agent, b, ok = quickQuoted(b[1:]); !ok {
		return false
	}
	if f.fields == clfForward {
		if len(b) < 2 || b[0] != ' ' {
			return false
		}
		if ev.Forward, b, ok = quickQuoted(b[1:]); !ok {
			return false
		}
	}
	return len(b) == 0 || b[0] == ' '
}

// quickPeer reads the address that a line begins with, and returns what is
// behind its blank.
func quickPeer(line []byte, ev *Event) (rest []byte, ok bool) {
	if quad, size := quickQuad(line); size > 0 {
		ev.Peer = netip.AddrFrom4([4]byte{byte(quad >> 24), byte(quad >> 16), byte(quad >> 8), byte(quad)})
		return line[size+1:], true
	}
	return quickPeer6(line, ev)
}

// quickPeer6 is quickPeer for all other addresses.
func quickPeer6(line []byte, ev *Event) (rest []byte, ok bool) {
	i := bytes.IndexByte(line, ' ')
	if i <= 0 {
		return nil, false
	}
	ev.Peer, ok = ParseAddr(line[:i])
	return line[i+1:], ok
}

// quickRequest reads a request behind its opening quote, and returns what is
// behind the closing one and its blank.
func quickRequest(b []byte, ev *Event) (rest []byte, ok bool) {
	end := bytes.IndexByte(b, '"')
	if end < 1 || b[end-1] == '\\' || end+1 >= len(b) || b[end+1] != ' ' {
		return nil, false
	}
	request, rest := b[:end], b[end+2:]
	const proto = len("HTTP/1.1")
	if end < len("GET / ")+proto {
		return nil, false
	}
	// Only a protocol that is known for sure has no blank in it.
	target := end - proto
	if !knownProtocol(binary.LittleEndian.Uint64(request[target:])) {
		splitRequest(request, ev)
		return rest, true
	}
	from := 0
	switch binary.LittleEndian.Uint32(request) {
	case 'G' | 'E'<<8 | 'T'<<16 | ' '<<24:
		from = len("GET ")
	case 'P' | 'O'<<8 | 'S'<<16 | 'T'<<24:
		from = len("POST ")
	case 'H' | 'E'<<8 | 'A'<<16 | 'D'<<24:
		from = len("HEAD ")
	}
	if from == 0 || from >= target || request[from-1] != ' ' || request[target-1] != ' ' {
		splitRequest(request, ev)
		return rest, true
	}
	ev.Method, ev.Target, ev.Proto = request[:from-1], request[from:target-1], request[target:]
	return rest, true
}

// knownProtocol tells of eight bytes, the first lowest, whether they are HTTP/1.0, 1.1,
// 2.0 or 3.0: without a branch for each, as no processor foresees which it is.
func knownProtocol(eight uint64) bool {
	const (
		form   = 'H' | 'T'<<8 | 'T'<<16 | 'P'<<24 | '/'<<32 | '0'<<40 | '.'<<48 | '0'<<56
		digits = 3<<40 | 1<<56                               // the bits in which they differ
		known  = 1<<(2*1) | 1<<(2*1+1) | 1<<(2*2) | 1<<(2*3) // by twice the first digit, and the second
	)
	x := eight ^ form
	return x&^digits == 0 && known>>(x>>39&6|x>>56)&1 != 0
}

// quickNumbers reads a status and a size, and returns what is behind them and
// their blank, if there is one.
func quickNumbers(b []byte, ev *Event) (rest []byte, ok bool) {
	if len(b) < len("200 0") || b[3] != ' ' {
		return nil, false
	}
	h, t, u := b[0]-'0', b[1]-'0', b[2]-'0'
	if h > 9 || t > 9 || u > 9 {
		return nil, false
	}
	size, i := quickSize(b[4:])
	i += 4
	ev.Status, ev.Bytes = int(h)*100+int(t)*10+int(u), size
	switch {
	case i == 4:
		return nil, false
	case i == len(b):
		return nil, true
	default:
		return b[i+1:], b[i] == ' '
	}
}

// quickSize reads the number that b begins with, of 18 digits at most, and returns
// how many digits it has, 0 if there are none.
func quickSize(b []byte) (size int64, n int) {
	if len(b) >= 8 {
		if size, n = few(binary.LittleEndian.Uint64(b)); n < 8 {
			return size, n
		}
	}
	size, n = 0, 0
	for ; n < len(b) && n < 18; n++ {
		c := b[n] - '0'
		if c > 9 {
			break
		}
		size = size*10 + int64(c)
	}
	return size, n
}

// quickQuoted reads a text in quotes, nil if it is a dash, and returns what is
// behind the closing one.
func quickQuoted(b []byte) (text, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return nil, nil, false
	}
	if len(b) >= 3 && b[1] == '-' && b[2] == '"' {
		return nil, b[3:], true
	}
	b = b[1:]
	i := bytes.IndexByte(b, '"')
	if i < 0 || i > 0 && b[i-1] == '\\' {
		return nil, nil, false
	}
	return b[:i], b[i+1:], true
}
