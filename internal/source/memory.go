package source

import (
	"os"
	"slices"
)

// maxRemembered is how many finished files are remembered. Only a glob that
// also covers rotated names needs them, and only while those exist.
const maxRemembered = 4096

// start is where to begin in a file if it is met (again).
type start struct {
	Position
	finished bool // it was read to Offset and let go
	copied   bool // it is a copy of a file that is read, and isn't read at all
	verified look // what the file was when its content was compared with Position
	put      int  // which call of put it comes from; 0 for stored ones
}

// memory knows where to begin in files that are not open: those with a stored
// position, and those let go in this run.
type memory struct {
	byID   map[identity][]start
	byPath map[string][]Position // stored positions only, of files not done
	marks  map[string]Position   // by pattern, those that were followed before
	done   map[identity]Position // files that are done and have a stored position
	added  []added               // in this run, oldest first
	puts   int
}

// added is one call of put: an identity may be dropped and put again.
type added struct {
	id  identity
	put int
}

func newMemory(log string, stored []Position) *memory {
	m := &memory{byID: make(map[identity][]start), byPath: make(map[string][]Position), marks: make(map[string]Position), done: make(map[identity]Position)}
	for _, p := range stored {
		if p.Log != log {
			continue
		}
		if isMark(p) {
			m.marks[p.Path] = p
			continue
		}
		if p.Done {
			m.done[p.identity()] = p
			m.byID[p.identity()] = []start{{Position: p, finished: true, copied: p.Offset > 0 && p.TailLen == 0}}
			continue
		}
		m.byID[p.identity()] = append(m.byID[p.identity()], start{Position: p})
		m.byPath[p.Path] = append(m.byPath[p.Path], p)
	}
	return m
}

// put remembers one file, and forgets the oldest beyond the cap.
func (m *memory) put(id identity, s start) {
	m.puts++
	s.put = m.puts
	m.byID[id] = []start{s}
	m.added = append(m.added, added{id, s.put})
	if len(m.added) <= maxRemembered {
		return
	}
	oldest := m.added[0]
	m.added = m.added[1:]
	if now := m.byID[oldest.id]; len(now) == 1 && now[0].put == oldest.put {
		delete(m.byID, oldest.id)
	}
}

func (m *memory) drop(id identity) { delete(m.byID, id) }

// match finds where to begin in an open file. Of several positions that agree
// with its content the furthest is taken. seen says that the identity was known
// at all, under the followed name path or as a file of this run.
func (m *memory) match(f *os.File, id identity, size int64, path string) (s start, ok, seen bool, err error) {
	for _, c := range m.candidates(id, path) {
		if c.Path == path && !c.finished {
			seen = true
		}
		agrees, e := headAgrees(f, size, c.Position)
		if e != nil {
			return start{}, false, seen, e
		}
		if agrees && (!ok || c.Offset > s.Offset) {
			s, ok = c, true
		}
	}
	return s, ok, seen, nil
}

// convincing is how many bytes of a file's beginning tell it from any other.
const convincing = 64

// candidates are the positions that an open file may have: those of its
// identity, and those of its name and inode. The number of a device can change
// from one boot, or one mount, to the next, and change back.
func (m *memory) candidates(id identity, path string) []start {
	out := slices.Clone(m.byID[id])
	for _, p := range m.byPath[path] {
		if p.renumbered(id) {
			out = append(out, start{Position: p})
		}
	}
	return out
}

// renumber takes what is stored of an open file under other numbers of its
// device for positions of this one, and returns them as they are stored. What
// was replaced need not agree with them. An error is that of reading the file.
func (m *memory) renumber(f *os.File, id identity, size int64, path string, replaced bool) (stored []Position, err error) {
	for i := range m.byPath[path] {
		p := &m.byPath[path][i]
		if !p.renumbered(id) {
			continue
		}
		agrees, err := headAgrees(f, size, *p)
		if err != nil {
			return nil, err
		}
		if agrees || replaced {
			stored = append(stored, *p)
			p.Dev = id.dev
		}
	}
	return stored, nil
}

// renumbered reports whether a position can be that of a file whose device had
// another number then, by its numbers alone.
func (p *Position) renumbered(id identity) bool {
	return p.Ino == id.ino && p.Dev != id.dev && p.Dev&packed == 0 && p.HeadLen >= convincing
}

// copied reports whether a file is known as a copy that isn't read.
func (m *memory) copied(id identity) bool {
	return len(m.byID[id]) > 0 && m.byID[id][0].copied
}
