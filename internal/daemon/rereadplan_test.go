package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// headHash is how a position tells a file's beginning.
func headHash(head string) string {
	if head == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(head))
	return hex.EncodeToString(sum[:16])
}

func TestPlanReread(t *testing.T) {
	c := parse(t, "[logs.journal]\njournal = [\"x.service\"]\n"+strings.Replace(site, `"/var/log/site.log"`, `["/var/log/access.log", "/var/log/day-*.log"]`, 1)+`[jails.web]
log = ["site", "journal"]
limit = 1
window = "60s"
ban = "1h"
[actions.report]
type = "log"
`)
	const a, longer, b = "aaaaaaaaa", "aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbb"
	p := func(ino uint64, offset int64, head string) state.Position {
		return state.Position{Log: "site", Path: "/var/log/access.log", Dev: 1, Ino: ino, Offset: offset, Head: headHash(head), HeadLen: int64(len(head))}
	}
	read := func(n int64, p state.Position) state.Position {
		p.Read = n
		return p
	}
	exposed := func(p state.Position) state.Position { p.Exposed = true; return p }
	leftTo := func(n int64, p state.Position) state.Position {
		p.Left = n
		return p
	}
	list := func(p ...state.Position) []state.Position { return p }
	journal := func(offset int64) state.Position {
		return state.Position{Log: "journal", Path: "journal:x.service", Offset: offset, Cursor: "x"}
	}
	units, empty := journal(2), journal(0)
	unitsNow := journal(9)
	unitsNow.Path = "journal:y"
	units.Path, empty.Cursor = "journal:y", ""
	socket := state.Position{Log: "site", Path: "unix:/x", Offset: 5}
	otherLog, gone := p(9, 10, a), p(8, 10, a)
	otherLog.Log, gone.Log = "journal", "gone"
	away, inJournal, left, day := p(5, 10, a), journal(2), p(6, 10, a), p(7, 10, a)
	away.Log, inJournal.Log, left.Path, day.Path = "gone", "site", "/var/log/other.log", "/var/log/day-1.log"
	awayNow, inJournalNow, leftNow, dayNow := away, inJournal, left, day
	awayNow.Offset, inJournalNow.Offset, leftNow.Offset, dayNow.Offset = 20, 20, 20, 20
	packed := p(1, 10, a)
	packed.Dev |= 1 << 63
	packedNow := packed
	packedNow.Offset = 20
	moved := p(1, 10, a)
	moved.Dev = 2
	telling := strings.Repeat(longer, 4)
	on2 := func(p state.Position) state.Position {
		p.Dev = 2
		return p
	}
	born := func(ino uint64, head string) state.Position { return p(ino, 0, head) }
	type file struct{ from, upTo int64 }
	ended := func(p state.Position, offset, torn int64) state.Note {
		return state.Note{What: state.NoteFinished, Reached: []state.Reached{{Log: p.Log, Dev: p.Dev, Ino: p.Ino, Offset: offset, Torn: torn}}}
	}
	endedLeft := func(p state.Position, offset, left int64) state.Note {
		n := ended(p, offset, 0)
		n.Reached[0].Left = left
		return n
	}
	tailed := p(1, 10, a)
	tailed.Tail, tailed.TailLen, tailed.Read = "x", 9, 9
	for name, tt := range map[string]struct {
		taken, stored []state.Position
		notes         []state.Note // since the snapshot
		damaged       state.Loaded
		holds         string // what the files hold now; "": there are none
		resume        []state.Position
		files         []file
		lost          int
		err           string
	}{
		"nothing since":     {taken: list(p(1, 10, a)), stored: list(p(1, 10, a)), holds: a, resume: list(p(1, 10, a))},
		"more since":        {taken: list(p(1, 10, a)), stored: list(p(1, 50, longer)), holds: longer, resume: list(p(1, 10, longer)), files: []file{{10, 50}}},
		"on another device": {taken: list(moved), stored: list(p(1, 50, a)), holds: longer, resume: list(p(1, 10, a)), files: []file{{10, 50}}},
		"stored of two devices": {taken: list(p(1, 80, telling)), stored: list(on2(p(1, 80, telling)), p(1, 90, telling)), holds: telling,
			resume: list(p(1, 80, telling), on2(p(1, 80, telling))), files: []file{{80, 90}}},
		"taken of two devices": {taken: list(p(1, 80, telling), on2(p(1, 85, telling))), stored: list(p(1, 90, telling)), holds: telling,
			resume: list(p(1, 85, telling)), files: []file{{85, 90}}},
		"two files of one number": {taken: list(p(1, 80, telling)), stored: list(on2(p(1, 80, telling)), read(90, p(1, 90, strings.ToUpper(telling)))), holds: telling,
			resume: list(on2(p(1, 80, telling)), read(90, p(1, 90, strings.ToUpper(telling)))), lost: 1},
		"born since":               {taken: list(p(1, 10, a)), stored: list(p(1, 10, a), read(40, p(2, 40, a))), holds: a, resume: list(p(1, 10, a), born(2, a)), files: []file{{0, 40}}},
		"and read from its middle": {taken: list(p(1, 10, a)), stored: list(p(1, 10, a), read(15, p(2, 40, a))), holds: a, resume: list(p(1, 10, a), p(2, 25, a)), files: []file{{25, 40}}},
		"and nothing of it read":   {taken: list(p(1, 10, a)), stored: list(p(1, 10, a), p(2, 40, a)), holds: a, resume: list(p(1, 10, a), p(2, 40, a))},
		"truncated since":          {taken: list(p(1, 1000, b)), stored: list(read(50, p(1, 50, a))), holds: a, resume: list(born(1, a)), files: []file{{0, 50}}, lost: 1},
		"and has grown":            {taken: list(p(1, 10, b)), stored: list(read(50, p(1, 50, longer))), holds: longer, resume: list(born(1, longer)), files: []file{{0, 50}}, lost: 1},
		"or is small":              {taken: list(p(1, 20, longer)), stored: list(read(9, p(1, 9, a))), holds: longer, resume: list(born(1, a)), files: []file{{0, 9}}, lost: 1},
		"left out since": {taken: list(tailed), stored: list(leftTo(30, read(20, p(1, 50, longer)))), holds: longer,
			resume: list(leftTo(30, p(1, 30, longer))), files: []file{{30, 50}}, lost: 1},
		"left out before":         {taken: list(p(1, 10, a)), stored: list(leftTo(10, p(1, 50, longer))), holds: longer, resume: list(p(1, 10, longer)), files: []file{{10, 50}}},
		"left out up to the end":  {taken: list(p(1, 10, a)), stored: list(leftTo(50, p(1, 50, longer))), holds: longer, resume: list(leftTo(50, p(1, 50, longer))), lost: 1},
		"born since and left out": {stored: list(leftTo(30, read(40, p(2, 40, a)))), holds: a, resume: list(leftTo(30, p(2, 30, a))), files: []file{{30, 40}}, lost: 1},
		"truncated and left out": {taken: list(p(1, 1000, b)), stored: list(leftTo(30, read(50, p(1, 50, a)))), holds: a,
			resume: list(leftTo(30, p(1, 30, a))), files: []file{{30, 50}}, lost: 1},
		"left out and finished": {taken: list(p(3, 12, a)), notes: []state.Note{endedLeft(p(3, 0, a), 18, 15)}, holds: longer,
			resume: list(leftTo(15, p(3, 15, a))), files: []file{{15, 18}}, lost: 1},
		"strangers could, at the snapshot": {taken: list(exposed(p(1, 10, a))), stored: list(leftTo(30, read(20, p(1, 50, longer)))), holds: longer,
			resume: list(leftTo(30, p(1, 30, longer))), files: []file{{30, 50}}, lost: 1},
		"strangers could write to it":  {taken: list(p(1, 10, a)), stored: list(exposed(p(1, 50, longer))), holds: longer, resume: list(exposed(p(1, 50, longer))), lost: 1},
		"left out and finished there":  {taken: list(p(3, 12, a)), notes: []state.Note{endedLeft(p(3, 0, a), 18, 18)}, holds: longer, lost: 1},
		"replaced while down":          {taken: list(p(1, 10, a)), stored: list(p(1, 50, a)), holds: b, resume: list(p(1, 50, a)), lost: 1},
		"cut short while down":         {taken: list(p(1, 0, "")), stored: list(p(1, 50, longer)), holds: a, resume: list(p(1, 50, longer)), lost: 1},
		"the rest of a compressed one": {taken: list(packed), stored: list(packedNow), resume: list(packedNow), lost: 1},
		"and nothing since":            {taken: list(packed), stored: list(packed), resume: list(packed)},
		"and its end":                  {taken: list(packed), lost: 1},
		"compressed":                   {taken: list(p(1, 10, a)), stored: list(p(1, 50, a)), resume: list(p(1, 50, a)), lost: 1},
		"finished since":               {taken: list(p(1, 10, a), p(3, 12, a)), stored: list(p(1, 10, a)), notes: []state.Note{ended(p(3, 0, a), 18, 0)}, holds: longer, resume: list(p(1, 10, a), p(3, 12, a)), files: []file{{12, 18}}},
		"and removed":                  {taken: list(p(1, 10, a), p(3, 12, a)), stored: list(p(1, 10, a)), notes: []state.Note{ended(p(3, 0, a), 18, 0)}, resume: list(p(1, 10, a)), lost: 1},
		"and another one is it":        {taken: list(p(1, 10, a), p(3, 12, a)), stored: list(p(1, 10, a)), notes: []state.Note{ended(p(3, 0, a), 24, 0)}, holds: longer, resume: list(p(1, 10, a)), lost: 1},
		"lost its position":            {taken: list(p(1, 10, a), p(3, 12, a)), stored: list(p(1, 10, a)), notes: []state.Note{ended(p(4, 0, a), 18, 0)}, holds: longer, resume: list(p(1, 10, a)), lost: 1},
		"of a damaged state":           {taken: list(p(1, 10, a)), stored: list(p(1, 50, longer)), damaged: state.Loaded{Damaged: "x"}, holds: longer, err: "records of the state file are lost"},
		"or one with gaps":             {taken: list(p(1, 10, a)), stored: list(p(1, 50, longer)), damaged: state.Loaded{Lost: 1}, holds: longer, err: "records of the state file are lost"},
		"too much has happened":        {taken: list(p(1, 10, a)), stored: list(p(1, 50, longer)), notes: []state.Note{{What: state.NoteFull}}, holds: longer, err: "more has been decided since"},
		"a log that is new":            {taken: list(otherLog), stored: list(p(1, 10, a)), holds: a, resume: list(p(1, 10, a)), lost: 0},
		"the journal":                  {taken: list(journal(2)), stored: list(journal(5)), resume: list(journal(2)), files: []file{{2, 5}}},
		"another journal":              {taken: list(units), stored: list(journal(5)), resume: list(journal(5)), lost: 1},
		"a journal of other units now": {taken: list(units), stored: list(unitsNow), resume: list(unitsNow)},
		"no journal before":            {taken: list(socket), stored: list(journal(9)), resume: list(journal(9)), lost: 1},
		"a journal from then on":       {taken: list(empty), stored: list(journal(5)), resume: list(journal(5)), lost: 1},
		"a socket":                     {taken: list(p(1, 10, a)), stored: list(socket, p(1, 10, a)), holds: a, resume: list(socket, p(1, 10, a))},
		"no files at all":              {},
		"ahead of the state":           {taken: list(p(1, 60, a)), stored: list(p(1, 50, a)), holds: a, err: "ahead"},
		"too much to read":             {taken: list(p(1, 60, a)), stored: list(p(1, 2<<30, a)), holds: a, err: "bytes have been counted since"},
		"the log is gone since":        {taken: list(gone, p(1, 10, a)), stored: list(p(1, 10, a)), holds: a, resume: list(p(1, 10, a))},
	} {
		look := func(p *state.Position, n int64) ([]byte, int64, string, bool) {
			return []byte(tt.holds[:min(int(n), len(tt.holds))]), int64(len(tt.holds)), p.Path, tt.holds != ""
		}
		l := &tt.damaged
		l.Positions, l.Notes = tt.stored, append([]state.Note{{N: 7, What: state.NoteSnapshot}}, tt.notes...)
		got, err := planReread(c, &state.Windows{Positions: tt.taken, Mark: 7}, l, look)
		if tt.err != "" || err != nil {
			if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: got error %v, want %q", name, err, tt.err)
			}
			continue
		}
		if len(got.resume) != len(tt.resume) || len(got.files) != len(tt.files) || got.lost != tt.lost {
			t.Errorf("%s: got %+v", name, got)
			continue
		}
		for i := range tt.resume {
			if got.resume[i] != tt.resume[i] {
				t.Errorf("%s: read on from %+v, want %+v", name, got.resume[i], tt.resume[i])
			}
		}
		for _, f := range got.files {
			if f.position.Offset != f.upTo {
				t.Errorf("%s: a position at %d is kept of what was counted up to %d", name, f.position.Offset, f.upTo)
			}
			if is := (file{f.from, f.upTo}); is != tt.files[0] {
				t.Errorf("%s: read again %+v, want %+v", name, is, tt.files[0])
			}
		}
	}
}

// A disk with logs that hangs holds the start up for a while only.
func TestPlanOnADiskThatHangs(t *testing.T) {
	r, s := before(t, []string{one}, []string{other})
	d := r.daemon
	hangs, ended := make(chan struct{}), make(chan struct{})
	d.windows, d.loaded, d.look = s.windows, &s.loaded, func(*state.Position, int64) ([]byte, int64, string, bool) {
		defer close(ended)
		<-hangs
		return nil, 0, "", false
	}
	d.loaded.Positions[0].HeadLen = 1
	d.loaded.Positions[0].Head = "x"
	if p := d.planWindows(time.Millisecond); p != nil {
		t.Errorf("planned %+v", p)
	}
	r.journal.want(t, 1, "windows begin at zero: the snapshot of what was counted can't be used", "err", "a disk with logs does not answer")
	close(hangs)
	<-ended
}

// A snapshot goes with the state file that has noted it, and with no other one: not
// with one from a backup, whose lines have decided nothing yet.
func TestSnapshotOfAnotherState(t *testing.T) {
	c := parse(t, web)
	w := &state.Windows{Mark: 7}
	for _, notes := range [][]state.Note{
		nil,
		{{N: 6, What: state.NoteSnapshot}},
		{{N: 6, What: state.NoteSnapshot}, {N: 8, What: state.NoteSnapshot}},
		{{N: 7, What: state.NoteLifted}},
	} {
		if _, err := planReread(c, w, &state.Loaded{Notes: notes}, lookFor); err == nil || !strings.Contains(err.Error(), "does not know of it") {
			t.Errorf("after %+v: error %v", notes, err)
		}
	}
	if _, err := planReread(c, w, &state.Loaded{Notes: []state.Note{{N: 7, What: state.NoteSnapshot}, {N: 8, What: state.NoteSnapshot}}}, lookFor); err != nil {
		t.Errorf("of an attempt that came to nothing: %v", err)
	}
}

// The state file is one of a backup, older than the snapshot: lines that nobody
// has counted by what it knows must decide.
func TestStateFileFromABackup(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	db := filepath.Join(s.state, stateFile)
	run := func(client string) {
		r := s.run(s.config(logOnly))
		s.requests(client, 3)
		r.waitBanned(client)
		r.stop()
	}
	run("203.0.113.1")
	backup, err := os.ReadFile(db)
	check(t, err)
	check(t, os.Rename(s.log, s.log+".1"))
	check(t, os.WriteFile(s.log, nil, 0o644))
	run("203.0.113.2")
	s.requests("203.0.113.3", 3) // while it is stopped
	check(t, os.WriteFile(db, backup, 0o600))
	r := s.run(s.config(logOnly))
	r.waitBanned("203.0.113.3")
	r.stop()
}

// A file that was born after the snapshot is read again from its first byte,
// if it is still the one that was counted.
func TestFileBornSinceTheSnapshot(t *testing.T) {
	now := time.Now()
	w := write(t, filepath.Join(t.TempDir(), "access.log"), []string{line(one, now), line(one, now), line(other, now)})
	size := int64(len(w.data))
	for _, tt := range []struct {
		is     string
		lines  int // of that client
		banned int
	}{{one, 2, 0}, {"192.0.2.9", 2, 1}, {"192.0.2.9", 3, 1}} {
		was, s := beforeWith(t, strings.Replace(web, `"/var/log/site.log"`, fmt.Sprintf(`["/var/log/site.log", %q]`, w.Path), 1), []string{other}, nil)
		s.loaded.Positions = append(s.loaded.Positions, state.Position(w.batch(0, size).Position))
		r := newRig(t, s)
		is := *w
		is.data = []byte(strings.Repeat(line(tt.is, now), tt.lines) + line(other, now))
		r.take(is.batch(0, 0), now)
		r.take(is.batch(0, int64(len(is.data))), now)
		if r.again != nil {
			t.Errorf("%s: still waiting", tt.is)
		}
		r.journal.want(t, tt.banned, "banned", "client", tt.is)
		r.journal.want(t, tt.banned, "banned", "client", other) // it has one in the window
		was.took()
	}
}
