package config

import (
	"strconv"
	"strings"
)

// path leads from the top of the document to a value: keys, and positions in
// lists.
type path []step

// step is one key, or one position in a list if index is not negative.
type step struct {
	key   string
	index int
}

func keyPath(keys ...string) path {
	var p path
	for _, k := range keys {
		p = p.key(k)
	}
	return p
}

// key returns the path of a key in the table at p.
func (p path) key(k string) path { return p.with(step{key: k, index: -1}) }

// elem returns the path of an element of the list at p.
func (p path) elem(i int) path { return p.with(step{index: i}) }

func (p path) with(s step) path {
	out := make(path, len(p)+1)
	copy(out, p)
	out[len(p)] = s
	return out
}

// id is different for different paths, whatever characters keys hold.
func (p path) id() string {
	var b strings.Builder
	for _, s := range p {
		if s.index >= 0 {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		} else {
			b.WriteString("." + strconv.Quote(s.key))
		}
	}
	return b.String()
}

// keys returns the keys on the path, without positions in lists.
func (p path) keys() []string {
	var keys []string
	for _, s := range p {
		if s.index < 0 {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// String returns the keys as TOML writes them. Positions in lists are left
// out: the line and the value say which element is meant.
func (p path) String() string {
	keys := p.keys()
	for i, k := range keys {
		if !isBareKey(k) {
			keys[i] = strconv.Quote(k)
		}
	}
	return strings.Join(keys, ".")
}

func isBareKey(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != ""
}
