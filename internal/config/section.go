package config

import "slices"

// section is a table of the document. It remembers which keys were asked for:
// finish reports the others, so that what is read and what is known cannot
// differ.
type section struct {
	doc   *document
	path  path
	table map[string]any
	asked []string
}

// get returns the value of a key, and whether it is there.
func (s *section) get(key string) (node, bool) {
	s.asked = append(s.asked, key)
	v, ok := s.table[key]
	if !ok {
		return node{}, false
	}
	return s.node(key, v), true
}

func (s *section) node(key string, v any) node {
	p := s.path.key(key)
	return node{doc: s.doc, path: p, at: s.doc.at(p), v: v}
}

// missing records that a required key isn't there.
func (s *section) missing(key, format string, args ...any) {
	s.doc.bad(s.path.key(key), format, args...)
}

// sub returns the table under a key; false if it is absent or no table.
func (s *section) sub(key string) (*section, bool) {
	n, ok := s.get(key)
	if !ok {
		return nil, false
	}
	return n.section()
}

func (n node) section() (*section, bool) {
	t, ok := n.v.(map[string]any)
	if !ok {
		n.bad("must be a table: [%s]", n.path)
		return nil, false
	}
	return &section{doc: n.doc, path: n.path, table: t}, true
}

// finish reports the keys nobody asked for.
func (s *section) finish() {
	for _, key := range s.doc.pos.inOrder(s.path, s.table) {
		if !slices.Contains(s.asked, key) {
			s.doc.bad(s.path.key(key), "unknown key%s", suggest(key, s.asked))
		}
	}
}

// named is a table of a group such as [logs.NAME].
type named struct {
	name string
	*section
}

// group returns the tables under a key that group things by name, in the
// order of the file, and all their names. The latter include the ones whose
// table is bad, so that a reference to these is not reported as well. If
// there are none, and this is a problem, required says what to do about it.
func (s *section) group(key, required string) (tables []named, names []string) {
	n, ok := s.get(key)
	if !ok {
		n = s.node(key, map[string]any{})
	}
	g, ok := n.section()
	if !ok {
		return nil, nil
	}
	if len(g.table) == 0 && required != "" {
		s.missing(key, "%s", required)
	}
	for _, name := range s.doc.pos.inOrder(g.path, g.table) {
		names = append(names, name)
		n := g.node(name, g.table[name])
		if !isName(name) {
			s.doc.bad(n.path, "a name has 1 to 32 lower-case letters, digits, - and _, and begins with a letter")
		}
		if t, ok := n.section(); ok {
			tables = append(tables, named{name, t})
		}
	}
	return tables, names
}

// isName reports whether s can name a log, jail or action. Names become parts
// of environment variables and command lines.
func isName(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= 32
}
