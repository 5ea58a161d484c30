package main

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// readSize is how much the loops here read at a time.
const readSize = 1 << 17

func countNewlines(name string) (lines int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, readSize)
	for {
		n, err := f.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

const (
	ringLimit  = 50
	ringWindow = 60 // seconds
)

// ring holds the latest times of one address.
type ring struct {
	times [ringLimit + 1]int32
	n     uint32
	over  bool
}

// minimal is the least that finds who makes more than 50 requests in 60
// seconds, exactly, in a log that is in order and has no malformed line: the
// address as a key, the time of day, a ring for each key. It tells no client
// behind a proxy and looks at nothing else. Only the lines within one month are
// told apart.
func minimal(name string) (lines int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	rings := map[[16]byte]*ring{}
	var last [len("29/Nov/2026:16:51:36")]byte
	var now int32
	buf := make([]byte, readSize)
	for kept := 0; ; {
		n, err := f.Read(buf[kept:])
		rest := buf[:kept+n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			line := rest[:i]
			rest = rest[i+1:]
			lines++
			blank := bytes.IndexByte(line, ' ')
			at := line[blank+len(" - - ["):][:len(last)]
			if string(at) != string(last[:]) {
				copy(last[:], at)
				now = ((two(at[0:])*24+two(at[12:]))*60+two(at[15:]))*60 + two(at[18:])
			}
			count(rings, keyOf(line[:blank]), now)
		}
		kept = copy(buf, rest)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

func count(rings map[[16]byte]*ring, k [16]byte, now int32) {
	r := rings[k]
	if r == nil {
		r = &ring{}
		rings[k] = r
	}
	r.times[r.n%(ringLimit+1)] = now
	r.n++
	if r.n > ringLimit && now-r.times[r.n%(ringLimit+1)] < ringWindow {
		r.over = true
	}
}

func two(b []byte) int32 { return int32(b[0]-'0')*10 + int32(b[1]-'0') }

// keyOf reads an address that is one.
func keyOf(b []byte) (k [16]byte) {
	if bytes.IndexByte(b, ':') < 0 {
		k[10], k[11] = 0xff, 0xff
		part := 12
		for _, c := range b {
			if c == '.' {
				part++
			} else {
				k[part] = k[part]*10 + c - '0'
			}
		}
		return k
	}
	gap, n := -1, 0
	for i := 0; i < len(b); {
		if b[i] == ':' {
			if i+1 < len(b) && b[i+1] == ':' {
				gap = n
				i++
			}
			i++
			continue
		}
		v := uint16(0)
		for ; i < len(b) && b[i] != ':'; i++ {
			v <<= 4
			if c := b[i]; c <= '9' {
				v |= uint16(c - '0')
			} else {
				v |= uint16(c-'a') + 10
			}
		}
		if n < 16 {
			k[n], k[n+1] = byte(v>>8), byte(v)
			n += 2
		}
	}
	if gap >= 0 {
		moved := 16 - (n - gap)
		copy(k[moved:], k[gap:n])
		clear(k[gap:moved])
	}
	return k
}
