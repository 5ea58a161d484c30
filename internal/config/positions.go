package config

import (
	"cmp"
	"slices"
)

// positions says on which line of the file each key and each element of a
// list stands, and in which order they came.
type positions struct {
	at       map[string]place // by path.id
	explicit []path           // keys and table headers as written, in order
}

type place struct {
	line int // from 1
	seq  int // how many were recorded before
}

// line returns the line of the value at p, or else of the nearest value
// around it; 0 if there is none.
func (ps *positions) line(p path) int {
	for ; len(p) > 0; p = p[:len(p)-1] {
		if at, ok := ps.at[p.id()]; ok {
			return at.line
		}
	}
	return 0
}

// inOrder returns the keys of the table at p in the order of the file.
func (ps *positions) inOrder(p path, table map[string]any) []string {
	type entry struct {
		key string
		seq int
	}
	entries := make([]entry, 0, len(table))
	for k := range table {
		entries = append(entries, entry{k, ps.at[p.key(k).id()].seq})
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.key, b.key))
	})
	keys := make([]string, len(entries))
	for i, e := range entries {
		keys[i] = e.key
	}
	return keys
}

// record notes the first place where a path is seen, and the same place for
// tables around it that have none of their own (a.b.c = 1 makes a and a.b).
func (ps *positions) record(p path, line int) {
	for ; len(p) > 0; p = p[:len(p)-1] {
		id := p.id()
		if _, ok := ps.at[id]; ok {
			return // and so are the tables around it
		}
		ps.at[id] = place{line: line, seq: len(ps.at)}
	}
}
