package parser

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s byteSet) has(c byte) bool { return s[c>>6]&(1<<(c&63)) != 0 }

// plus returns the set with the bytes first to last added.
func (s byteSet) plus(first, last byte) byteSet {
	for c := int(first); c <= int(last); c++ {
		s[c>>6] |= 1 << (c & 63)
	}
	return s
}

// and returns the set with the bytes of text added.
func (s byteSet) and(text string) byteSet {
	for i := range len(text) {
		s = s.plus(text[i], text[i])
	}
	return s
}

// without returns the set with the bytes of text removed.
func (s byteSet) without(text string) byteSet {
	for i := range len(text) {
		s[text[i]>>6] &^= 1 << (text[i] & 63)
	}
	return s
}

func (s byteSet) union(o byteSet) byteSet {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// class says which bytes a field can hold once the server has escaped it.
type class struct {
	set byteSet
	// escaped: a quote occurs only behind a backslash, and backslashes come
	// in pairs or before what they escape (Apache, escape=json). The quote
	// is then not in set.
	escaped bool
}

func (c class) union(o class) class {
	return class{c.set.union(o.set), c.escaped || o.escaped}
}

// anchor returns the index of the first byte of the literal lit that a field
// of this class cannot hold. The first such byte behind the field's beginning
// is the literal's, whoever wrote the field.
func (c class) anchor(lit string) (k int, ok bool) {
	for k := range len(lit) {
		if c.set.has(lit[k]) {
			continue
		}
		// A backslash of the format's own would count as one of the field's.
		if lit[k] == '"' && c.escaped && k > 0 && lit[k-1] == '\\' {
			return 0, false
		}
		return k, true
	}
	return 0, false
}

// anchorBack is anchor from the other side: the index of the last byte of lit
// that the field behind it cannot hold. Escaped quotes cannot be told from
// behind, so a quote is none then.
func (c class) anchorBack(lit string) (k int, ok bool) {
	for k := len(lit) - 1; k >= 0; k-- {
		if !c.set.has(lit[k]) && !(lit[k] == '"' && c.escaped) {
			return k, true
		}
	}
	return 0, false
}

// The classes of fields that no client writes freely.

// numberClass: 200, 0.005, -.
func numberClass() class { return class{set: byteSet{}.plus('0', '9').and(".-")} }

// addressClass: an address, perhaps with a zone; "unix:".
func addressClass() class {
	return class{set: byteSet{}.plus('0', '9').plus('a', 'z').plus('A', 'Z').and(":.%_-")}
}

// protocolClass: HTTP/1.1.
func protocolClass() class {
	return class{set: byteSet{}.plus('0', '9').plus('A', 'Z').plus('a', 'z').and("/.-")}
}

// wordClass: printable, without blanks and quotes.
func wordClass() class { return class{set: byteSet{}.plus('!', '~').without(`"\`)} }
