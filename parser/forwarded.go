package parser

import (
	"bytes"
	"strings"
)

// forwarded reads the header Forwarded of RFC 7239 as the list of addresses
// that X-Forwarded-For would be: of each element the value of "for", without
// its quotes.
//
//	for=192.0.2.43;proto=https, For="[2001:db8:cafe::17]:4711"
//	192.0.2.43, [2001:db8:cafe::17]:4711
//
// It is read from the right: there stands what our own proxies wrote, and
// whatever is to the left, an open quote above all, can't change what that
// means. An element that names nobody, or that can't be read, becomes one that
// is no address, so that the walk ends there.
type forwarded struct {
	escaped bool // the log's own escapes are to be undone first
	text    []byte
	nodes   [][]byte // from the right
	buf     []byte
}

// noNode stands for an element that names nobody.
var noNode = []byte("?")

// isForwarded reports whether a header or key is that of RFC 7239.
func isForwarded(name string) bool {
	switch strings.ReplaceAll(strings.ToLower(name), "-", "_") {
	case "forwarded", "http_forwarded", "request_forwarded":
		return true
	}
	return false
}

// list returns the list, in a buffer; nil for nil.
func (f *forwarded) list(header []byte) []byte {
	if header == nil {
		return nil
	}
	if f.escaped {
		f.text = appendUnescaped(f.text[:0], header)
		header = f.text
	}
	f.nodes = f.nodes[:0]
	for more := true; more; {
		var element []byte
		element, header, more = cutLast(header, ',')
		f.nodes = append(f.nodes, forNode(element))
	}
	f.buf = f.buf[:0]
	for i := len(f.nodes) - 1; i >= 0; i-- {
		f.buf = append(f.buf, f.nodes[i]...)
		if i > 0 {
			f.buf = append(f.buf, ", "...)
		}
	}
	return f.buf
}

// cutLast cuts what is behind the last separator outside of quotes off b. more
// reports whether there is one.
func cutLast(b []byte, separator byte) (last, rest []byte, more bool) {
	inside := false
	for i := len(b) - 1; i >= 0; i-- {
		switch {
		case b[i] == '"' && !(inside && isEscaped(b, i)):
			inside = !inside
		case b[i] == separator && !inside:
			return b[i+1:], b[:i], true
		}
	}
	return b, nil, false
}

// isEscaped reports whether b[i] is behind an odd number of backslashes.
func isEscaped(b []byte, i int) bool {
	n := 0
	for n < i && b[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// forNode returns the node of an element's "for": empty for an empty element,
// noNode if there is none that could be an address.
func forNode(element []byte) []byte {
	element = bytes.Trim(element, " \t")
	if len(element) == 0 {
		return nil
	}
	var node []byte
	for more := true; more; {
		var pair []byte
		pair, element, more = cutLast(element, ';')
		name, value, ok := bytes.Cut(bytes.Trim(pair, " \t"), []byte("="))
		switch {
		case !ok && len(name) > 0:
			return noNode
		case !bytes.EqualFold(name, []byte("for")):
			continue
		case node != nil: // which is meant?
			return noNode
		}
		if n := len(value) - 1; n > 0 && value[0] == '"' && value[n] == '"' {
			value = value[1:n]
		}
		node = value
	}
	return addressNode(node)
}

// addressNode takes an obfuscated port ("_x") off a node. What holds anything
// that no address or obfuscated name does becomes noNode: a comma in it would
// make two of it.
func addressNode(node []byte) []byte {
	if i := bytes.LastIndex(node, []byte(":_")); i > 0 {
		node = node[:i]
	}
	for _, c := range node {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && bytes.IndexByte([]byte(".:[]_-"), c) < 0 {
			return noNode
		}
	}
	if len(node) == 0 {
		return noNode
	}
	return node
}
