package daemon

import (
	"bytes"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// After a start with a snapshot of the windows, the lines between it and the
// stored positions are read again, to fill the windows. All that came of them
// is noted: nothing is decided. Until the last of them is read, lines
// that are new wait: what they become depends on the others.

const (
	// maxHeld is how many bytes new lines that wait take at most.
	maxHeld = 64 << 20

	// rereadPatience is how long the next line to be read again may take, and
	// rereadLimit all of them. What has not come by then is left out.
	// The first takes as long as whatever reads it takes to start.
	firstPatience  = 10 * time.Second
	rereadPatience = 2 * time.Second
	rereadLimit    = 30 * time.Second
)

// rereading is what is left to do of a reading again.
type rereading struct {
	waiting  int             // files that have not been read up to where they were
	absent   int             // of those, files of which no line has come
	turns    int             // of what has happened since the snapshot
	offences []state.Offence // as they are stored
	held     []*source.Batch
	size     int       // bytes that those take
	first    time.Time // for the first line of each file
	deadline time.Time // for the next line
	end      time.Time // for all
}

// again is a file that is read again.
type again struct {
	from     int64          // where that begins
	upTo     int64          // lines before it were counted before; lines that are new wait for them
	torn     int64          // of them, a last line without its line feed, which comes late or not at all
	position state.Position // what is stored for it
	next     int64          // up to where it has been read
	begun    bool
	heard    bool // some line has come
	looked   bool // its first lines have been compared
	done     bool // all of that has been read
	finished bool // it was read to its end, and has no position any more

	// reached is how far it had been counted when something happened, in order;
	// what is behind is taken off.
	reached []turnAt
}

// turnAt says that lines before an offset were counted before something
// happened, which is the next after that many others.
type turnAt struct {
	offset int64
	turn   int
}

// take takes a batch to where it belongs.
func (e *engine) take(b *source.Batch, now time.Time) {
	if len(e.known) == 0 && e.again == nil {
		e.batch(b, now)
		b.Done()
		return
	}
	if f := e.knownFile(b); f != nil && !e.reread(f, b, now) {
		b.Done()
	} else if e.again == nil {
		e.batch(b, now)
		b.Done()
	} else {
		e.again.held = append(e.again.held, b)
		e.again.size += b.Keep()
	}
	if r := e.again; r != nil && (r.waiting == 0 || r.size > maxHeld) {
		e.settle(now)
	}
}

// knownFile returns the file of a batch if some of its lines were counted
// before. The number of a device can change from one boot to the next: then it
// is known by the new one from its first batch on.
func (e *engine) knownFile(b *source.Batch) *again {
	p := state.Position(b.Position)
	if f := e.known[p.Key()]; f != nil {
		return f
	}
	for key, f := range e.known {
		if !f.begun && !b.Final && isFile(&p) && key.Log == p.Log && key.Ino == p.Ino && f.position.Path == p.Path {
			if b.Offset == f.from {
				e.renumber(f, p.Dev)
			}
			return f
		}
	}
	return nil
}

// renumber has what is stored for a file stored under the present number of its
// device, too: its source has the other forgotten soon.
func (e *engine) renumber(f *again, dev uint64) {
	delete(e.known, f.position.Key())
	f.position.Dev = dev
	e.known[f.position.Key()] = f
	e.positions[f.position.Key()] = f.position
	e.update.Positions = append(e.update.Positions, f.position)
	e.handOver() // what forgets it must come later
}

// reread takes what is not new off a batch, and counts it if all new lines
// still wait for it. It reports whether anything is left.
func (e *engine) reread(f *again, b *source.Batch, now time.Time) bool {
	if !f.fits(b) { // another file, or it has begun anew: all of it is new
		e.forgetKnown(f)
		return true
	}
	size, lines := f.old(b)
	if size > 0 {
		if e.again != nil {
			e.recount(f, b, b.Data[:size], now)
			e.hear(f)
			e.again.came(now)
		}
		b.Data = b.Data[size:]
		if b.Starts == nil {
			b.Offset += int64(size)
		} else if b.Starts = b.Starts[lines:]; len(b.Starts) > 0 {
			b.Offset = b.Starts[0]
		}
	}
	if f.next = b.Next; len(b.Data) > 0 {
		f.next = b.Offset
	}
	if f.position.Cursor != "" && b.Again {
		f.next = min(f.next, f.upTo-1)
	}
	switch {
	case f.next >= f.upTo || b.Final:
		e.forgetKnown(f)
	case f.next >= f.upTo-f.torn:
		e.reached(f)
	}
	if f.finished && (b.Final || f.next >= f.upTo || len(b.Data) > 0) {
		e.goesOnFrom(b)
	}
	return b.Final || len(b.Data) > 0
}

// goesOnFrom notes that a file which was finished is read anew, from the rest of
// a batch on: what comes of it stands behind what was counted before, and is
// not another file's.
func (e *engine) goesOnFrom(b *source.Batch) {
	p := state.Position(b.Position)
	if len(b.Data) == 0 && !b.Final {
		e.update.Positions = append(e.update.Positions, p)
		e.handOver() // what forgets it must come later
	} else { // it is stored, or forgotten, with what is left
		p.Offset = b.Offset
	}
	e.positions[p.Key()] = p
}

// fits reports whether a batch is of the file that is expected, and where its
// reading goes on.
func (f *again) fits(b *source.Batch) bool {
	if !f.begun {
		f.begun, f.next = true, f.from
		return b.Offset == f.from
	}
	is, was := &b.Position, &f.position
	if !f.looked && f.from == 0 && was.HeadLen > 0 && len(b.Data) > 0 {
		// A file that is new begins at its first byte, too.
		f.looked = true
		shorter := b.Next+b.Behind < f.upTo
		whole := b.Starts == nil && !b.Cut && int64(len(b.Data)) >= was.HeadLen
		if shorter || whole && !source.Position(*was).Begins(b.Data) {
			return false
		}
	}
	return b.Offset >= f.next && (is.HeadLen != was.HeadLen || is.Head == was.Head)
}

// old is how many bytes of a batch, and how many lines if these say where they
// begin, are lines that began before upTo.
func (f *again) old(b *source.Batch) (size, lines int) {
	n := f.upTo - b.Offset
	switch {
	case f.position.Cursor != "": // what reads a journal knows its entries
		if b.Again {
			return len(b.Data), 0
		}
		return 0, 0
	case b.Starts != nil:
		for lines < len(b.Starts) && b.Starts[lines] < f.upTo {
			lines++
			size += bytes.IndexByte(b.Data[size:], '\n') + 1
			if lines == len(b.Starts) { // the last may lack its line feed
				size = len(b.Data)
			}
		}
		return size, lines
	case n <= 0:
		return 0, 0
	case b.Cut || n >= int64(len(b.Data)):
		return len(b.Data), 0
	}
	i := bytes.IndexByte(b.Data[n-1:], '\n')
	if i < 0 {
		return len(b.Data), 0
	}
	return int(n) + i, 0
}

// hear notes that lines of a file that is waited for come. That its reading has
// begun doesn't say so: a journal is announced before its program is started.
func (e *engine) hear(f *again) {
	if !f.heard && !f.done {
		f.heard = true
		e.again.absent--
	}
}

// reached notes that a file has been read up to where it was.
func (e *engine) reached(f *again) {
	if !f.done && e.again != nil {
		e.hear(f)
		e.again.waiting--
	}
	f.done = true
}

func (e *engine) forgetKnown(f *again) {
	e.reached(f)
	delete(e.known, f.position.Key())
}

// recount takes lines that were counted before through the detector again. All
// that came of them is known.
func (e *engine) recount(f *again, b *source.Batch, lines []byte, now time.Time) {
	l := e.logs[b.File.Log]
	if l == nil {
		return
	}
	at := detector.Line{Path: b.File.Path, Dev: b.File.Dev, Ino: b.File.Ino, Offset: b.Offset}
	n := 0
	for line := range bytes.Lines(lines) {
		if b.Starts != nil {
			at.Offset = b.Starts[n]
		}
		v := e.detect.Again(l.Log, bytes.TrimSuffix(line, []byte{'\n'}), b.Cut, at, f.turn(at.Offset, e.again.turns))
		if v.Time != 0 && (e.oldest == 0 || v.Time < e.oldest) {
			e.oldest = v.Time
		}
		if v.Client.IsValid() {
			l.majority.add(v.Client, now)
		}
		at.Offset += int64(len(line))
		n++
	}
}

// turn is how many of all changes since the snapshot came before a line. Lines
// are asked for in their order.
func (f *again) turn(offset int64, all int) int {
	for len(f.reached) > 0 && f.reached[0].offset <= offset {
		f.reached = f.reached[1:]
	}
	if len(f.reached) == 0 {
		return all
	}
	return f.reached[0].turn
}

// settle ends the reading again: the detector is told what is in force and
// what was decided, as it is stored, and the lines that waited are taken.
func (e *engine) settle(now time.Time) {
	r := e.again
	e.again = nil
	if r.waiting > 0 {
		e.log.Warn("not all lines since the last snapshot of the windows could be read again: some windows lack events", "files", r.waiting)
	}
	e.detect.Recalled(now)
	for i := range r.offences {
		if o := &r.offences[i]; e.offences.keys[o.Key()] != nil {
			e.detect.RestoreOffence(o.Jail, o.Target, o.Count, o.Last)
		}
	}
	for _, h := range e.bans.bans {
		if h.owner(adoptedJail) >= 0 { // whoever has decided it did not get to storing that
			e.detect.UseUp(h.Target)
		}
		e.tellDetector(&h.Ban)
	}
	for _, b := range r.held {
		e.batch(b, now)
		b.Done()
	}
}

// lastOfStreams ends a reading again that a stop has cut off. What files and the
// journal hold is left to the next start, which begins where this one has; so
// are what their patterns lead to and the rests of compressed ones: that counts
// only together with what came with it. Only what will not come again is counted.
func (e *engine) lastOfStreams(batches <-chan *source.Batch, now time.Time) {
	once := func(b *source.Batch) bool {
		return b.Position.Dev == 0 && b.Position.Ino == 0 && b.Position.Cursor == ""
	}
	e.again.held = slices.DeleteFunc(e.again.held, func(b *source.Batch) bool { return !once(b) })
	e.settle(now)
	for {
		select {
		case b := <-batches:
			if once(b) {
				e.batch(b, now)
			}
			b.Done()
		default:
			return
		}
	}
}

// goOn takes up what was counted when a snapshot was taken, and has the lines
// since read again. It comes after takeUp.
func (e *engine) goOn(w *state.Windows, p *rereadPlan, now time.Time) {
	n := e.detect.RestoreSnapshot(countedIn(w))
	e.restoreTraffic(w.Traffic, now)
	e.detect.Recall(w.Allowed, changesOf(p.since))
	e.again.turns = len(p.since)
	e.noteAllowed(allowedAfter(w.Allowed, p.since), e.allowed.list)
	e.known = p.files
	for _, f := range e.known {
		if f.upTo > f.from {
			e.again.waiting++
			e.again.absent++
		} else {
			f.done = true
		}
	}
	e.again.first, e.again.end = now.Add(firstPatience), now.Add(rereadLimit)
	e.again.deadline = e.again.first
	if p.lost > 0 {
		e.log.Warn("some lines since the last snapshot of the windows can't be read again (compressed, truncated, removed or refused since, or strangers could write to the log), so windows lack them", "files", p.lost)
	}
	e.log.Info("windows go on from a snapshot", "taken", w.Taken.Format(time.RFC3339), "windows", n, "of", len(w.Rule), "bytes_to_read_again", p.bytes)
	if e.again.waiting == 0 {
		e.settle(now)
	}
}

// hurry is the time at which a reading again is given up; nil if there is none
// under way.
func (r *rereading) hurry() <-chan time.Time {
	if r == nil {
		return nil
	}
	at := r.deadline
	if r.end.Before(at) {
		at = r.end
	}
	return time.After(time.Until(at))
}

// came notes that a line has come. What has not begun yet may take as long as
// before.
func (r *rereading) came(now time.Time) {
	r.deadline = now.Add(rereadPatience)
	if r.absent > 0 && r.deadline.Before(r.first) {
		r.deadline = r.first
	}
}

// overdue reports whether it is to be given up.
func (r *rereading) overdue(now time.Time) bool {
	return r != nil && (now.After(r.deadline) || now.After(r.end))
}
