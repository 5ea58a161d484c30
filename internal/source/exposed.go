package source

import (
	"io"
	"log/slog"
	"slices"
)

// A log that strangers can write to is refused when it is opened. One that they
// can write to since then isn't read on: all that was written up to the look
// that finds it put right may be theirs, and is left out.

const exposedReason = "any user can write to it and so have anybody banned: chmod o-w"

// expose takes the file's mode.
func (r *reader) expose(mode uint32) {
	r.exposed = r.vet && mode&0o002 != 0
	r.tainted = r.tainted || r.exposed
}

// leaveOut goes on behind all that was in the file when it was last looked at.
func (r *reader) leaveOut() error {
	if r.size <= r.offset {
		r.tainted = r.exposed
		return nil
	}
	if err := r.align(r.size); err != nil {
		return err
	}
	r.lost, r.need = r.lost+r.behind(), 0
	if err := r.jump(r.size); err != nil {
		return err
	}
	r.left, r.leftTo, r.tainted = true, r.offset, r.exposed
	return nil
}

// rememberExposed has it known to a later start that strangers could write to a
// file, as it may have been put right by then.
func (r *follower) rememberExposed(path string, l look) {
	if r.memory.exposed(l.id, path) {
		return
	}
	p := Position{Log: r.o.Log, Path: path, Dev: l.id.dev, Ino: l.id.ino, Offset: l.size}
	for _, s := range r.memory.byID[l.id] {
		if !s.finished {
			p = s.Position
		}
	}
	p.Exposed = true
	r.memory.put(l.id, start{Position: p})
	r.tell(p, false)
}

// exposed reports whether strangers could write to a file when it was last
// looked at. That it holds something else by now changes nothing: they may have
// done that.
func (m *memory) exposed(id identity, path string) bool {
	return slices.ContainsFunc(m.candidates(id, path), func(s start) bool { return s.Exposed })
}

// align notes whether offset, where reading is to go on, is inside of a line, of
// which the rest is then left out.
func (r *reader) align(offset int64) error {
	r.skip, r.skipRecord = false, false
	if offset == 0 {
		return nil
	}
	var last [1]byte
	if _, err := r.f.ReadAt(last[:], offset-1); err != nil && err != io.EOF {
		return wrap("read end of last line", err)
	}
	r.skip = last[0] != '\n'
	if r.skip || r.wrap == "" {
		return nil
	}
	var err error
	r.skipRecord, err = r.inRecord(offset)
	return err
}

// leftOut reports whether something was left out, and counts that as a gap once
// for each time that strangers could write.
func (t *tail) leftOut() bool {
	if !t.r.left {
		return false
	}
	if !t.counted {
		t.counts.gaps.Add(1)
	}
	t.counted, t.r.left = true, false
	return true
}

// judge says, once, that what is in the file isn't read, and why.
func (t *tail) judge() {
	if t.r.unlike && !t.unlike {
		t.unlike = true
		t.log.Warn("this doesn't look like a log: a line goes on for more than 1 MiB and has zero bytes in it")
	}
	was, now := t.blocked.Load(), t.r.blocked
	if t.r.exposed {
		now = exposedReason
	}
	switch {
	case now == "" && was != nil:
		t.blocked.Store(nil)
		if *was == exposedReason {
			t.counted = false
			t.log.Info("log is read again, what was in it by then is left out", slog.Int64("from", t.r.offset))
		}
	case now != "" && (was == nil || *was != now):
		t.blocked.Store(&now)
		t.counts.refused.Add(1)
		if t.r.exposed {
			t.log.Error("log is no longer read"+refusedHint(nil), slog.String("reason", now))
		} else {
			t.log.Error("not reading a log that holds no lines of text: it is " + now)
		}
	}
}
