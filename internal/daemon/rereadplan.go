package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// maxReread is how many bytes are read again at most. Windows that would take
// more are not worth the delay of all new lines.
const maxReread = 1 << 30

// rereadPlan says from where files are read after a start with a snapshot.
type rereadPlan struct {
	files  map[state.PositionKey]*again // that are read from before their stored position
	resume []state.Position             // of all files
	bytes  int64                        // to be read again

	since []state.Note // what has happened since the snapshot

	counted map[string]source.Position // by log, up to where a journal is read again
	lost    int                        // files with lines since the snapshot that can't be read again

	config *config.Config
	owners []source.LogFiles
	look   looker
}

// looker finds the file of a position in its folder, under any name, and
// returns its first n bytes, or all if it has fewer, its size and that name.
type looker func(p *state.Position, n int64) (head []byte, size int64, path string, ok bool)

// planPatience is how long that may take which looks at logs.
const planPatience = 10 * time.Second

// planWindows plans how to go on from the snapshot that was found; nil if there
// is none that can be used. A disk of logs that hangs must not keep bans from
// being enforced.
func (d *daemon) planWindows(patience time.Duration) *rereadPlan {
	if d.windows == nil {
		return nil
	}
	c, w, l := d.config, d.windows, d.loaded
	p, err := answer(patience, errors.New("a disk with logs does not answer"), func() (*rereadPlan, error) {
		return planReread(c, w, l, d.look)
	})
	if err != nil {
		d.Log.Warn("windows begin at zero: the snapshot of what was counted can't be used", "taken", w.Taken.Format(time.RFC3339), "err", err)
	}
	return p
}

// planReread compares the positions of a snapshot with those that are stored,
// which are later. An error says why the snapshot can't be used.
func planReread(c *config.Config, w *state.Windows, l *state.Loaded, look looker) (*rereadPlan, error) {
	since, ok := notesSince(l.Notes, w.Mark)
	switch {
	case l.Damaged != "" || l.Lost > 0:
		return nil, errors.New("records of the state file are lost")
	case !ok:
		return nil, errors.New("the state file does not know of it: it is another one, or older")
	case slices.ContainsFunc(since, func(n state.Note) bool { return n.What == state.NoteFull }):
		return nil, errors.New("more has been decided since than is kept for that")
	}
	p := &rereadPlan{since: since, files: map[state.PositionKey]*again{}, counted: map[string]source.Position{},
		config: c, owners: filesOf(c), look: look}
	stored, others := onePerFile(l.Positions, look)
	taken, _ := onePerFile(w.Positions, look)
	then := map[state.PositionKey]*state.Position{}
	for i := range taken {
		then[taken[i].Key()] = &taken[i]
	}
	for i := range stored {
		now := &stored[i]
		was := then[now.Key()]
		if was == nil && isFile(now) {
			was = sameNumber(then, now)
		}
		if was != nil {
			delete(then, was.Key())
		}
		if !stillRead(c, now) {
			p.resume = append(p.resume, *now) // nobody sends any of it, or only its end
			continue
		}
		if err := p.add(now, was); err != nil {
			return nil, err
		}
	}
	for _, was := range then {
		switch {
		case isFile(was) && stillRead(c, was):
			p.addFinished(was, finished(since, was.Key()))
		case isPacked(was) && stillRead(c, was):
			p.lost++
		}
	}
	p.alike(others)
	if p.bytes > maxReread {
		return nil, fmt.Errorf("%d bytes have been counted since", p.bytes)
	}
	return p, nil
}

// finished returns how far a file had been read that was finished since, nil if
// it was not.
func finished(since []state.Note, key state.PositionKey) (end *state.Reached) {
	for i := range since {
		n := &since[i]
		if n.What == state.NoteFinished && n.Reached[len(n.Reached)-1].Key() == key {
			end = &n.Reached[len(n.Reached)-1]
		}
	}
	return end
}

// stillRead reports whether a log is read as it was when a position was stored:
// from the journal of the same units, or from files one of which has that name.
func stillRead(c *config.Config, p *state.Position) bool {
	l := logNamed(c, p.Log)
	switch {
	case l == nil:
		return false
	case p.Cursor != "":
		return p.Path == source.JournalPath(l.Journal)
	case isFile(p):
		return source.Covers(l.Files, p.Path)
	}
	return true
}

// sameNumber finds the position of a file whose device has got another number
// since, as it can from one boot to the next.
func sameNumber(then map[state.PositionKey]*state.Position, now *state.Position) *state.Position {
	for _, was := range then {
		if was.Log == now.Log && was.Ino == now.Ino && was.Path == now.Path && isFile(was) {
			return was
		}
	}
	return nil
}

// isFile reports whether a position is of a file that can be read from there
// on: what is no file has no device, and what was found in another form a
// device of its own.
func isFile(p *state.Position) bool { return p.Dev != 0 && !isPacked(p) }

// isPacked reports whether it is of the rest of a compressed file, which is read
// once, from where the file had been counted.
func isPacked(p *state.Position) bool { return p.Dev>>63 != 0 }

// canReread reports whether what was read up to a position can be read again.
func canReread(p *state.Position) bool { return isFile(p) || p.Cursor != "" }

// add plans how a file, or the journal, is read that is at position now. was is
// where it stood in the snapshot, nil if that doesn't know it.
func (p *rereadPlan) add(now, was *state.Position) error {
	switch {
	case isPacked(now) && (was == nil || was.Offset != now.Offset):
		p.lost++
		p.resume = append(p.resume, *now)
		return nil
	case !canReread(now), was != nil && was.Offset == now.Offset && was.Head == now.Head:
		p.resume = append(p.resume, *now)
		return nil
	case isFile(now):
		return p.addFile(now, was)
	case was == nil || was.Path != now.Path || was.Cursor == "":
		p.lost++ // another journal, or none: only behind the last entry it is known
		p.resume = append(p.resume, *now)
		return nil
	case was.Offset > now.Offset:
		return fmt.Errorf("it is ahead of the state file in %s", now.Path)
	}
	p.again(*was, now, now.Offset)
	p.counted[now.Log] = source.Position(*now)
	return nil
}

// addFile looks at what the file holds now: it may be another one by now, or
// have been another when the snapshot was taken.
func (p *rereadPlan) addFile(now, was *state.Position) error {
	if was == nil && now.Read == 0 {
		p.resume = append(p.resume, *now) // nothing of it was counted
		return nil
	}
	if now.Exposed { // no line in it is to be believed
		p.lost++
		p.resume = append(p.resume, *now)
		return nil
	}
	head, _, path, ok := p.look(now, now.HeadLen)
	if !ok || !source.Position(*now).Begins(head) || p.refuses(now, path) {
		// Compressed, removed or replaced: what is left of it is found by
		// who reads it, from where it stood. Or refused: then all others
		// would wait for it in vain.
		p.lost++
		p.resume = append(p.resume, *now)
		return nil
	}
	// What was read of it in all.
	born := state.Position{Log: now.Log, Path: now.Path, Dev: now.Dev, Ino: now.Ino, Offset: max(0, now.Offset-now.Read), Head: now.Head, HeadLen: now.HeadLen}
	from, lost, goesOn := born, false, false
	switch {
	case was == nil:
	case was.HeadLen > now.HeadLen || !source.Position(*was).Begins(head):
		lost = true // truncated since, or replaced: only what it holds now is there
	case was.Offset > now.Offset:
		return fmt.Errorf("it is ahead of the state file, or %s was truncated since", now.Path)
	default:
		from, goesOn = *was, true
		from.Dev, from.Ino, from.Head, from.HeadLen = now.Dev, now.Ino, now.Head, now.HeadLen // the longer one tells more
	}
	left := leaveOut(&from, now.Left)
	if lost || left {
		p.lost++
	}
	if left && from.Offset >= now.Offset {
		p.resume = append(p.resume, *now)
		return nil
	}
	p.again(from, now, now.Offset)
	if goesOn {
		p.files[from.Key()].reached = p.reached(was.Key(), now.Key())
	}
	return nil
}

// leaveOut has a file read from behind what was left out of it, since strangers
// may have written that: it would count now. It reports whether that is later,
// so that lines before which were counted are not read again.
func leaveOut(from *state.Position, left int64) bool {
	if left <= from.Offset {
		return false
	}
	from.Offset, from.Left, from.Read, from.Tail, from.TailLen = left, left, 0, "", 0
	return true
}

// refuses reports whether a file will not be read as it is, found under a path.
func (p *rereadPlan) refuses(of *state.Position, path string) bool {
	if path == of.Path && source.OwnerOf(p.owners, path) != of.Log {
		return true // a rotated one is read by whose it was
	}
	return source.Refuses(path, os.Geteuid(), logNamed(p.config, of.Log).AllowInsecure) != nil
}

// again has a file read from a position up to where all was counted before.
func (p *rereadPlan) again(from state.Position, file *state.Position, upTo int64) {
	from.Exposed = false // which it was then, and is not now; what had to be left out is
	p.resume = append(p.resume, from)
	p.files[from.Key()] = &again{from: from.Offset, upTo: upTo, position: *file, reached: p.reached(from.Key(), file.Key())}
	p.bytes += upTo - from.Offset
}

// reached lists how far a file had been counted when something happened. The
// number of its device can have changed since.
func (p *rereadPlan) reached(keys ...state.PositionKey) (list []turnAt) {
	for turn := range p.since {
		for _, r := range p.since[turn].Reached {
			if !slices.Contains(keys, r.Key()) {
				continue
			}
			if r.Anew {
				list = nil
			}
			list = append(list, turnAt{r.Offset, turn})
		}
	}
	return list
}

// addFinished plans how a file is read that has no position any more. If it was
// read to its end since, and is still there, what it held then was counted.
func (p *rereadPlan) addFinished(was *state.Position, end *state.Reached) {
	if end == nil {
		p.lost++
		return
	}
	head, size, path, ok := p.look(was, was.HeadLen)
	if !ok || size < end.Offset || end.Offset < was.Offset || !source.Position(*was).Begins(head) || p.refuses(was, path) {
		p.lost++
		return
	}
	from := *was
	if leaveOut(&from, end.Left) {
		p.lost++
		if from.Offset >= end.Offset {
			return
		}
	}
	now := *was
	now.Offset, now.Read, now.Tail, now.TailLen = end.Offset, was.Read+end.Offset-was.Offset, "", 0
	p.again(from, &now, end.Offset)
	p.files[was.Key()].torn, p.files[was.Key()].finished = end.Torn, true
}

// lookFor is the looker of real files. If the number of the device has changed
// since, the file is known by its inode and its beginning.
func lookFor(p *state.Position, n int64) (head []byte, size int64, path string, ok bool) {
	head, size, path, ok = beginning(p, n, numbered(p.Dev, p.Ino))
	if ok && source.Position(*p).Begins(head) || !source.Position(*p).Telling() {
		return head, size, path, ok
	}
	if other, otherSize, otherPath, is := beginning(p, n, withInode(p.Ino)); is {
		return other, otherSize, otherPath, true
	}
	return head, size, path, ok
}

// beginning returns the first n bytes of a file, its size and its path.
func beginning(p *state.Position, n int64, is func(os.FileInfo) bool) (head []byte, size int64, path string, ok bool) {
	f, size, err := openFound(p.Path, "", is)
	if err != nil {
		return nil, 0, "", false
	}
	defer f.Close()
	head = make([]byte, min(n, size))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, "", false
	}
	return head, size, f.Name(), true
}
