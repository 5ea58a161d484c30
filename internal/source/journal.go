package source

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// JournalOptions says what to read of the systemd journal. Log and Units are
// required.
type JournalOptions struct {
	// Log is the name of the log, for File, Position and messages.
	Log string

	// Units are names of units such as "nginx.service". What their processes
	// write is read; they are told by _SYSTEMD_UNIT=, which journald sets
	// itself and nobody can forge.
	Units []string

	// Resume holds the positions stored for this log; those of other logs are
	// ignored.
	Resume []Position

	// Counted is up to where entries were counted before, if Resume holds an
	// earlier position of the same units. Batches up to its entry are marked
	// (Again), and one without lines follows that begins at its offset. If the
	// journal has lost the entry of the earlier position, reading goes on
	// behind this one.
	Counted Position

	// FromStart reads the journal from its oldest entry if there is no stored
	// position. Otherwise only what is written from now on counts.
	FromStart bool

	// MaxLine is as in FilesOptions.
	MaxLine int

	// Logger gets what an administrator should know; nil discards it.
	Logger *slog.Logger
}

// Journal reads the messages of some units by a child, journalctl. A message is
// one line, whatever is in it: a line feed inside becomes the two characters
// \n. Each is sent once, also over restarts: its position is the entry's cursor.
type Journal struct {
	o       JournalOptions
	s       *stream
	program string
	bootID  string // the file with the number of the running boot
	pause   pauses
	settle  time.Duration // how long a child lives that is well, though nothing comes
}

var _ Source = (*Journal)(nil)

const journalScheme = "journal:"

// JournalPath is the Path of the positions that a journal of these units has.
func JournalPath(units []string) string { return journalScheme + strings.Join(units, ",") }

// NewJournal starts nothing.
func NewJournal(o JournalOptions) *Journal {
	return &Journal{
		o: o, program: "journalctl", bootID: "/proc/sys/kernel/random/boot_id", pause: newPauses(), settle: 2 * time.Second,
		s: newStream(o.Log, JournalPath(o.Units), o.MaxLine, o.Logger),
	}
}

// Stats may be called at any time, from any goroutine.
func (j *Journal) Stats() StreamStats { return j.s.stats() }

// place is where reading goes on.
type place struct {
	cursor string // behind this entry; empty: at the oldest
	sure   bool   // the entry of the cursor is one of the same units
	seen   bool   // it was there a moment ago

	counted *Position // what comes up to it was counted before; nil: nothing was
}

// lost reports whether the entry is gone, if the first that is shown from there
// on is another. It isn't if that one is of a later boot: --follow shows no other.
func (p *place) lost(first string) bool {
	return p.cursor != "" && p.sure && (!p.seen || bootOf(p.cursor) == bootOf(first))
}

// Run implements Source. It starts from Resume each time.
func (j *Journal) Run(ctx context.Context, out chan<- *Batch) error {
	p, found, ok := j.s.resume(ctx, out, j.o.Resume)
	if !ok {
		return nil
	}
	var at place
	begun := j.o.FromStart
	if found && strings.HasPrefix(p.Path, journalScheme) {
		at = place{cursor: p.Cursor, sure: p.Path == j.s.file.Path}
		begun = true
		if j.o.Counted.Cursor != "" && at.sure {
			at.counted, j.s.again = &j.o.Counted, true
		}
	}
	if begun && !j.s.announce(ctx, out, at.cursor) {
		return nil
	}
	for pause := false; ; pause = true {
		if pause {
			if !j.pause.wait(ctx) {
				return nil
			}
			j.s.restarts.Add(1)
		}
		if !begun {
			cursor, err := j.newest(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				j.s.trouble("cannot read the journal", err)
				continue
			}
			begun, at = true, place{cursor: cursor, sure: true}
			if !j.s.announce(ctx, out, cursor) {
				return nil
			}
		}
		err := j.follow(ctx, out, &at)
		if errors.Is(err, errJump) {
			err = j.follow(ctx, out, &at)
		}
		if err != nil && ctx.Err() == nil {
			j.s.trouble("journalctl has ended", err)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// args are those that say which entries to show, and how.
func (j *Journal) args(more ...string) []string {
	// Without --all a long message is null; with --output-fields no more is
	// written than is needed. The cursor always is.
	args := append([]string{"--output=json", "--all", "--output-fields=MESSAGE"}, more...)
	for _, u := range j.o.Units {
		args = append(args, "_SYSTEMD_UNIT="+u)
	}
	return args
}

// newest returns the cursor of the last entry there is, or none if there is no
// entry: everything is to come then.
func (j *Journal) newest(ctx context.Context) (string, error) {
	return j.last(ctx, j.args()...)
}

// last returns the cursor of the last of the entries that the arguments select;
// none: there is no such entry.
func (j *Journal) last(ctx context.Context, args ...string) (string, error) {
	c, err := startChild(ctx, func(string) {}, j.program, append([]string{"--lines=1", "--quiet"}, args...)...)
	if err != nil {
		return "", withHint(err)
	}
	r := newJournalReader(c.stdout, 0)
	var cursor string
	for {
		err := r.next()
		if err == nil {
			cursor = string(r.cursor.buf)
		} else if !errors.Is(err, errRecord) {
			break
		}
	}
	err = c.wait()
	said := c.says.last()
	// Versions differ in the exit code where there is no entry.
	if cursor == "" && err != nil && said != "" && !strings.Contains(said, noJournal) {
		return "", withHint(err)
	}
	return cursor, nil
}

// follow sends what is there and then what comes, until a child fails or ctx is
// done. The error is why it has ended, unless that was told already.
func (j *Journal) follow(ctx context.Context, out chan<- *Batch, at *place) error {
	// With --follow, journalctl shows the running boot alone (v252: "implies
	// --boot"), so what is left of earlier ones is read by a child before.
	at.seen = false
	if done, err := j.child(ctx, out, at, "--quiet"); !done {
		return err
	}
	if at.counted != nil { // not all of it is there
		j.jump(ctx, out, at)
		return errJump
	}
	boot, err := j.boot(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	_, err = j.child(ctx, out, at, append([]string{"--follow", "--no-tail"}, boot...)...)
	if time.Since(began) >= j.settle {
		j.pause.reset()
	}
	return err
}

// child sends what journalctl shows from a place on, until it ends or ctx is
// done. It returns true if all is sent and nothing was wrong.
func (j *Journal) child(ctx context.Context, out chan<- *Batch, at *place, args ...string) (done bool, err error) {
	if at.cursor != "" {
		// Not --after-cursor: if the entry of the cursor is gone, it leaves out
		// the next one, and doesn't tell.
		args = append(args, "--cursor="+at.cursor)
	}
	var lost, told atomic.Bool // the place of the cursor; what is wrong
	c, err := startChild(ctx, func(line string) {
		switch {
		case denied(line):
			told.Store(true)
			j.s.trouble("cannot read the journal", withHint(errors.New(line)))
		case strings.Contains(line, "seek to cursor"):
			lost.Store(true)
		}
	}, j.program, j.args(args...)...)
	if err != nil {
		return false, withHint(err)
	}
	settled := time.AfterFunc(j.settle, func() {
		if !told.Load() {
			j.s.fine(Following)
		}
	})
	defer settled.Stop()
	shown, err := j.entries(ctx, out, c, at)
	if err == nil || errors.Is(err, errJump) {
		c.end()
		if err != nil {
			j.jump(ctx, out, at)
		}
		return false, err
	}
	err = c.wait()
	settled.Stop()
	done = endedWell(err, c.says.last(), shown)
	if err == nil {
		err = errors.New("no error was told")
	}
	switch {
	case lost.Load() && at.counted != nil:
		j.jump(ctx, out, at)
		return false, errJump
	case lost.Load():
		done = false
		j.gap("the place in the journal is not known any more, reading from the oldest entry; lines may have been lost or come twice")
		*at = place{}
	}
	if told.Load() {
		return done, nil
	}
	return done, withHint(err)
}

// endedWell reports whether a child has shown all there is.
func endedWell(err error, said string, shown bool) bool {
	var exit *exec.ExitError
	// Versions differ in the exit code where there is no entry.
	return !errors.As(err, &exit) || exit.Exited() && !shown && (said == "" || strings.Contains(said, noJournal))
}

// noJournal is what journalctl says where nothing was ever written.
const noJournal = "No journal files were found"

// entries sends what the child writes, and reports whether that was anything.
// The error is nil if ctx is done.
func (j *Journal) entries(ctx context.Context, out chan<- *Batch, c *child, at *place) (shown bool, err error) {
	r := newJournalReader(c.stdout, j.s.maxLine)
	b := builder{s: j.s}
	fresh := false
	for {
		if r.r.Buffered() == 0 && !b.flush(ctx, out) {
			return shown, nil
		}
		err := r.next()
		if errors.Is(err, errRecord) {
			j.s.malformed.Add(1)
			continue
		}
		if err != nil {
			if !b.flush(ctx, out) {
				return shown, nil
			}
			return shown, err
		}
		cursor, last := string(r.cursor.buf), *at
		at.cursor, at.sure, at.seen = cursor, true, true
		first := !shown
		shown = true
		if first && last.cursor != "" && sameEntry(cursor, last.cursor) {
			continue // it is shown each time, also if no more is
		}
		if !fresh {
			fresh = true
			j.pause.reset()
			j.s.fine(Following)
		}
		if first {
			if last.lost(cursor) && at.counted != nil {
				*at = last
				if !b.flush(ctx, out) {
					return shown, nil
				}
				return shown, errJump
			}
			if last.lost(cursor) {
				j.gap("the journal has lost the entry that was read last, lines may have been lost (was it vacuumed?)")
			}
		}
		if !r.has {
			j.s.malformed.Add(1)
		} else if !b.add(ctx, out, r.message.buf, r.message.over, cursor) {
			return shown, nil
		}
		if at.counted != nil && (sameEntry(cursor, at.counted.Cursor) || j.s.offset+int64(len(b.c.buf)) >= at.counted.Offset) {
			if !b.flush(ctx, out) || !j.past(ctx, out, at) {
				return shown, nil
			}
		}
	}
}

// errJump means that entries are gone which were to be sent again.
var errJump = errors.New("entries that were counted before are gone")

// jump goes on behind what was counted before.
func (j *Journal) jump(ctx context.Context, out chan<- *Batch, at *place) {
	j.s.log.Info("the journal has lost entries that were to be read again; it goes on behind those that were counted")
	at.cursor, at.sure, at.seen = at.counted.Cursor, true, false
	j.past(ctx, out, at)
}

// past tells that what comes now was not counted before. It returns false if
// ctx is done.
func (j *Journal) past(ctx context.Context, out chan<- *Batch, at *place) bool {
	j.s.offset, j.s.again = max(j.s.offset, at.counted.Offset), false
	at.counted = nil
	return j.s.announce(ctx, out, at.cursor)
}

func (j *Journal) gap(msg string) {
	j.s.gaps.Add(1)
	j.s.log.Warn(msg)
}

// sameEntry reports whether two cursors are of one entry. The sequence number,
// and what it counts in (i= and s=), may differ: journald gives new ones when it
// moves entries from memory to the disk.
func sameEntry(a, b string) bool { return a == b || entryOf(a) == entryOf(b) }

func entryOf(cursor string) string {
	var out []string
	for part := range strings.SplitSeq(cursor, ";") {
		if !strings.HasPrefix(part, "s=") && !strings.HasPrefix(part, "i=") {
			out = append(out, part)
		}
	}
	return strings.Join(out, ";")
}

// denied recognises what journalctl says if it may not see all.
func denied(line string) bool {
	return strings.Contains(line, "insufficient permissions") || strings.Contains(line, "not seeing messages from other users") ||
		strings.Contains(line, "Permission denied")
}

// withHint guesses what to do about the error.
func withHint(err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return hinted{err, "journalctl comes with systemd: is it installed?"}
	case denied(err.Error()):
		return hinted{err, "the group systemd-journal can read it: SupplementaryGroups=systemd-journal in the daemon's unit"}
	}
	return err
}

// hinted is an error with what to do about it.
type hinted struct {
	error
	hint string
}

func (h hinted) Error() string { return h.error.Error() + " (" + h.hint + ")" }

func (h hinted) Unwrap() error { return h.error }
