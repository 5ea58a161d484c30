package daemon

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tailban/tailban/internal/config"
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
}

// planWindows plans how to go on from the snapshot that was found; nil if there
// is none that can be used.
func (d *daemon) planWindows() *rereadPlan {
	if d.windows == nil {
		return nil
	}
	p, err := planReread(d.config, d.windows.Positions, d.loaded.Positions)
	if err != nil {
		d.Log.Warn("windows begin at zero: the snapshot of what was counted can't be used", "taken", d.windows.Taken.Format(time.RFC3339), "err", err)
		return nil
	}
	return p
}

// planReread compares the positions of a snapshot with those that are stored,
// which are later. An error says why the snapshot can't be used.
func planReread(c *config.Config, taken, stored []state.Position) (*rereadPlan, error) {
	p := &rereadPlan{files: map[state.PositionKey]*again{}}
	then := map[state.PositionKey]*state.Position{}
	followed := map[string]bool{} // logs of which the snapshot knows a file
	for i := range taken {
		x := &taken[i]
		then[x.Key()] = x
		if isFile(x) {
			followed[x.Log] = true
		}
	}
	if len(taken) > 0 && len(stored) == 0 {
		return nil, errors.New("the state file does not know of any of its files")
	}
	for i := range stored {
		now := &stored[i]
		was := then[now.Key()]
		delete(then, now.Key())
		if err := p.add(now, was, followed[now.Log]); err != nil {
			return nil, err
		}
	}
	for _, was := range then {
		if isFile(was) && logNamed(c, was.Log) != nil {
			p.addFinished(was)
		}
	}
	if p.bytes > maxReread {
		return nil, fmt.Errorf("%d bytes have been counted since", p.bytes)
	}
	return p, nil
}

// isFile reports whether a position is of a file that can be read from there
// on: what is no file has no device, and what was found in another form a
// device of its own.
func isFile(p *state.Position) bool { return p.Dev != 0 && p.Dev>>63 == 0 }

// canReread reports whether what was read up to a position can be read again.
func canReread(p *state.Position) bool { return isFile(p) || p.Cursor != "" }

// add plans how a file, or the journal, is read that is at position now. was is
// where it stood in the snapshot, nil if that doesn't know it.
func (p *rereadPlan) add(now, was *state.Position, followed bool) error {
	// What was read, if it was read from its first byte on.
	born := state.Position{Log: now.Log, Path: now.Path, Dev: now.Dev, Ino: now.Ino, Head: now.Head, HeadLen: now.HeadLen}
	switch {
	case !canReread(now):
		p.resume = append(p.resume, *now)
	case was != nil && was.Offset == now.Offset:
		p.resume = append(p.resume, *now)
	case was != nil && now.HeadLen == was.HeadLen && now.Head != was.Head:
		p.again(born, now) // replaced or truncated since
	case was != nil && was.Offset < now.Offset:
		p.again(*was, now)
	case was != nil:
		return fmt.Errorf("it is ahead of the state file, or %s was truncated since", now.Path)
	case followed && isFile(now) && now.HeadLen > 0:
		p.again(born, now)
	default: // a log that is new since, and was read from wherever
		p.resume = append(p.resume, *now)
	}
	return nil
}

func (p *rereadPlan) again(from state.Position, now *state.Position) {
	p.resume = append(p.resume, from)
	p.files[now.Key()] = &again{from: from.Offset, upTo: now.Offset, wait: now.Offset, position: *now}
	p.bytes += now.Offset - from.Offset
}

// addFinished plans how a file is read that has been read to its end since, if
// it is still there.
func (p *rereadPlan) addFinished(was *state.Position) {
	size, ok := sizeOf(was)
	if !ok || size < was.Offset {
		return
	}
	p.resume = append(p.resume, *was)
	p.files[was.Key()] = &again{from: was.Offset, upTo: math.MaxInt64, wait: size, position: *was}
	p.bytes += size - was.Offset
}

// sizeOf looks for a file in the folder of its name, under any.
func sizeOf(p *state.Position) (size int64, ok bool) {
	entries, err := os.ReadDir(filepath.Dir(p.Path))
	if err != nil {
		return 0, false
	}
	for _, x := range entries {
		info, err := x.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && uint64(st.Dev) == p.Dev && st.Ino == p.Ino {
			return info.Size(), true
		}
	}
	return 0, false
}
