package daemon

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// maxNotes is how much is noted between two snapshots at most, by the weight of
// notes; stored is twice that, until the later snapshot is durable. A snapshot
// is due early if half of it is used up.
const maxNotes = 50_000

// notes is what is noted of what happened since the last snapshot that is
// durable, so that lines which are read again after a crash become what they
// had become. The state file holds them; here is only what is needed to add to
// them, and to have them forgotten.
type notes struct {
	on     bool // there is a snapshot that they follow
	full   bool // no more is noted before the next one
	last   uint64
	kept   []kept // those that are stored, ascending
	weight int    // of those since the latest snapshot
	max    int

	// moved is how far files have been counted, of those that were since the
	// last note.
	moved map[state.PositionKey]state.Reached
}

// kept is a note that is stored.
type kept struct {
	number uint64
	weight int
}

func newNotes() notes {
	return notes{max: maxNotes, moved: map[state.PositionKey]state.Reached{}}
}

// note has something stored that the lines don't tell.
func (e *engine) note(n state.Note) {
	s := &e.notes
	if !s.on || s.full {
		return
	}
	n.Reached = append(s.reached(), n.Reached...)
	if s.weight+n.Weight() > s.max {
		s.full = true
		n = state.Note{What: state.NoteFull}
	}
	e.addNote(n)
}

func (e *engine) addNote(n state.Note) {
	s := &e.notes
	// By the clock, so that no two state files have the same numbers.
	n.N = max(s.last+1, uint64(time.Now().UnixNano()))
	s.last = n.N
	s.kept = append(s.kept, kept{n.N, n.Weight()})
	s.weight += n.Weight()
	e.update.Notes = append(e.update.Notes, n)
}

// reached returns what has moved since the last note, in any order.
func (s *notes) reached() (list []state.Reached) {
	for _, r := range s.moved {
		list = append(list, r)
	}
	clear(s.moved)
	return list
}

// counts notes up to where a file is being counted.
func (s *notes) counts(p *state.Position, offset int64, anew bool) {
	if !s.on || !canReread(p) {
		return
	}
	r := s.moved[p.Key()]
	s.moved[p.Key()] = state.Reached{Log: p.Log, Dev: p.Dev, Ino: p.Ino, Offset: offset, Anew: r.Anew || anew}
}

// noteFinished notes that a file has been read to its end, with its last batch.
func (e *engine) noteFinished(b *source.Batch) {
	p := state.Position(b.Position)
	if !isFile(&p) {
		return
	}
	r := state.Reached{Log: p.Log, Dev: p.Dev, Ino: p.Ino, Offset: p.Offset, Anew: e.notes.moved[p.Key()].Anew, Left: p.Left}
	if n := len(b.Data); n > 0 && b.Data[n-1] != '\n' {
		begins := b.Offset + int64(bytes.LastIndexByte(b.Data, '\n')+1)
		if b.Starts != nil {
			begins = b.Starts[len(b.Starts)-1]
		}
		r.Torn = p.Offset - begins
	}
	delete(e.notes.moved, p.Key())
	e.note(state.Note{What: state.NoteFinished, Reached: []state.Reached{r}})
}

// mark notes that a snapshot is taken, and returns its number. If more is stored
// by now than one snapshot needs, since none became durable, it is given up:
// whatever follows from the one before can't be told any more.
func (e *engine) mark() uint64 {
	s := &e.notes
	e.forgetNotes(e.snapshots.stored.Load())
	total := 0
	for _, k := range s.kept {
		total += k.weight
	}
	if s.full || total > s.max {
		e.giveNotesUp()
	}
	clear(s.moved)
	s.on, s.full = true, false
	e.addNote(state.Note{What: state.NoteSnapshot})
	s.weight = 1
	return s.last
}

// giveNotesUp lets go of all but the mark of the snapshot that is stored, and notes
// that: a start before the next one is stored must tell why it is of no use.
func (e *engine) giveNotesUp() {
	s := &e.notes
	stored := len(s.kept) > 0 && s.kept[0].number == e.snapshots.stored.Load()
	var mark []kept
	if stored {
		mark, s.kept = s.kept[:1:1], s.kept[1:]
	}
	e.forgetNotes(^uint64(0))
	s.kept = mark
	if stored {
		e.addNote(state.Note{What: state.NoteFull})
	}
}

// forgetNotes lets go of those before a number.
func (e *engine) forgetNotes(before uint64) {
	s := &e.notes
	n, _ := slices.BinarySearchFunc(s.kept, before, func(k kept, number uint64) int {
		if k.number < number {
			return -1
		}
		return 1
	})
	for _, k := range s.kept[:n] {
		e.update.ForgetNotes = append(e.update.ForgetNotes, k.number)
	}
	s.kept = slices.Clone(s.kept[n:])
}

// takeUpNotes goes on with those of an earlier daemon that follow the snapshot of
// a number; 0: there is no snapshot that can be used.
func (e *engine) takeUpNotes(list []state.Note, mark uint64) {
	s := &e.notes
	for i := range list {
		n := &list[i]
		s.last = max(s.last, n.N)
		if mark == 0 || n.N < mark {
			e.update.ForgetNotes = append(e.update.ForgetNotes, n.N)
			continue
		}
		if n.What == state.NoteSnapshot {
			s.weight, s.full = 0, false
		}
		s.kept = append(s.kept, kept{n.N, n.Weight()})
		s.weight += n.Weight()
		s.full = s.full || n.What == state.NoteFull
	}
	s.on = mark != 0
	e.snapshots.stored.Store(mark)
}

// notesSince returns the notes that follow the snapshot of a number; false if
// that is not one of this state file.
func notesSince(list []state.Note, mark uint64) (since []state.Note, ok bool) {
	i := slices.IndexFunc(list, func(n state.Note) bool { return n.N == mark && n.What == state.NoteSnapshot })
	if i < 0 {
		return nil, false
	}
	return list[i+1:], true
}

// noteDecision notes a decision. One that the guard refuses matters by what it
// has used up; without a limit that is nothing.
func (e *engine) noteDecision(d *detector.Decision) {
	if d.Refused != "" {
		if d.Limit > 0 {
			e.note(state.Note{What: state.NoteSpent, Jail: d.Jail, Target: d.Target, Client: d.Client})
		}
		return
	}
	until := d.Until
	if d.Past {
		until = d.Time + int64(d.Ban)
	}
	e.note(state.Note{
		What: state.NoteDecided, Jail: d.Jail, Target: d.Target, Client: d.Client, Event: time.Unix(0, d.Time),
		Until: time.Unix(0, until), Offence: d.Offence, Enforced: d.Enforced, Observe: d.Observe,
	})
}

// noteBan notes a ban as it is from now on, which no line has decided.
func (e *engine) noteBan(b *state.Ban) {
	for i := range b.Owners {
		o := &b.Owners[i]
		e.note(state.Note{
			What: state.NoteBanned, Jail: o.Jail, Target: b.Target, Until: o.Until,
			Enforced: slices.ContainsFunc(o.Actions, e.keepsAway),
		})
	}
}

// noteChanged notes a ban that was another before.
func (e *engine) noteChanged(b *state.Ban) {
	e.note(state.Note{What: state.NoteLifted, Target: b.Target})
	e.noteBan(b)
}

// noteAllowed notes that others are allowed than before.
func (e *engine) noteAllowed(before, now []netip.Prefix) {
	n := state.Note{What: state.NoteAllowed, Allow: missing(now, before), Disallow: missing(before, now)}
	if len(n.Allow)+len(n.Disallow) > 0 {
		e.note(n)
	}
}

// missing lists those that are in one list and not in the other.
func missing(in, from []netip.Prefix) (list []netip.Prefix) {
	there := make(map[netip.Prefix]bool, len(from))
	for _, p := range from {
		there[p] = true
	}
	for _, p := range in {
		if !there[p] {
			there[p] = true
			list = append(list, p)
		}
	}
	return list
}

// allowedAfter lists who was allowed in the end.
func allowedAfter(allowed []netip.Prefix, since []state.Note) []netip.Prefix {
	for i := range since {
		if n := &since[i]; n.What == state.NoteAllowed {
			allowed = append(missing(allowed, n.Disallow), n.Allow...)
		}
	}
	return allowed
}

// changesOf are notes as the detector takes them, one for one.
func changesOf(list []state.Note) []detector.Change {
	kinds := map[string]detector.ChangeKind{
		state.NoteDecided: detector.Decided, state.NoteSpent: detector.Spent, state.NoteBegun: detector.Begun,
		state.NoteBanned: detector.Banned, state.NoteAdopted: detector.UsedUp,
		state.NoteLifted: detector.Lifted, state.NoteAllowed: detector.Allowed,
	}
	out := make([]detector.Change, len(list))
	for i := range list {
		n := &list[i]
		out[i] = detector.Change{
			Kind: kinds[n.What], Target: n.Target, Client: n.Client, Jail: n.Jail, Until: n.Until.UnixNano(),
			Enforced: n.Enforced, Observe: n.Observe, Time: n.Event.UnixNano(), Offence: n.Offence, Allow: n.Allow, Disallow: n.Disallow,
		}
	}
	return out
}
