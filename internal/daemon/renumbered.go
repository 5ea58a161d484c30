package daemon

import (
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// The number of a device can change from one boot, or one mount, to the next, and
// change back. What is stored of a file under an old number is forgotten once its
// source has made it known under the present one; a kill before that leaves both.

// renumbered is a position that is stored beside that of another key, of the same
// file, by which it has been read further.
type renumbered struct {
	dev uint64
	of  state.PositionKey
}

// onePerFile leaves the furthest of the positions of each file, and returns what
// it has left out. look finds out whether they are of the same file.
func onePerFile(list []state.Position, look looker) (kept []state.Position, others []renumbered) {
	type named struct {
		log, path string
		ino       uint64
	}
	furthest := map[named]*state.Position{}
	several := map[named]bool{}
	for i := range list {
		p := &list[i]
		if !isFile(p) || !source.Position(*p).Telling() {
			continue
		}
		n := named{p.Log, p.Path, p.Ino}
		was := furthest[n]
		several[n] = several[n] || was != nil
		if was == nil || p.Offset > was.Offset {
			furthest[n] = p
		}
	}
	heads := map[named][]byte{}
	for n, p := range furthest {
		if several[n] {
			heads[n], _, _, _ = look(p, p.HeadLen)
		}
	}
	for i := range list {
		p := &list[i]
		n := named{p.Log, p.Path, p.Ino}
		first, head := furthest[n], heads[n]
		if head == nil || p == first || !isFile(p) || !source.Position(*p).Telling() || !source.Position(*first).Begins(head) || !source.Position(*p).Begins(head) {
			kept = append(kept, *p)
			continue
		}
		others = append(others, renumbered{p.Dev, first.Key()})
	}
	return kept, others
}

// alike has the source begin at the same place whichever of a file's positions it
// takes, and have the others forgotten.
func (p *rereadPlan) alike(others []renumbered) {
	for _, o := range others {
		for _, r := range p.resume {
			if r.Key() == o.of {
				r.Dev = o.dev
				p.resume = append(p.resume, r)
				break
			}
		}
	}
}

// goesOn reports whether a position that is to be forgotten is of a file that is
// read under another number of its device.
func (e *engine) goesOn(p *state.Position) bool {
	for key, x := range e.positions {
		if key.Log == p.Log && key.Ino == p.Ino && key.Dev != p.Dev && isFile(&x) && isFile(p) && x.Path == p.Path && source.Position(*p).Telling() {
			return true
		}
	}
	return false
}
