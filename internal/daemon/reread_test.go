package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// before is a daemon that counted some requests, and took a snapshot then; it
// counted others since, and was killed. All that it has put is stored.
func before(t *testing.T, counted, since []string) (*rig, start) {
	return beforeWith(t, web, counted, since)
}

func beforeWith(t *testing.T, config string, counted, since []string) (*rig, start) {
	r := newRig(t, start{config: config, actions: []string{"firewall"}})
	r.requests(counted...)
	w := r.count(r.now).windows()
	if len(since) > 0 {
		r.requests(since...)
	}
	d := newDisk()
	for _, u := range r.took() {
		d.commit(u)
	}
	return r, start{config: config, actions: []string{"firewall"}, loaded: d.loaded(), windows: w}
}

// restarted is the next daemon; its source has begun at an offset.
func (r *rig) restarted(s start, offset int64) *rig {
	r.Helper()
	next := newRig(r.T, s)
	next.file, next.offset = r.file, offset
	next.take(next.lines(), next.now)
	return next
}

// ask is requests for a daemon that may read some of them again.
func (r *rig) ask(clients ...string) {
	var lines []string
	for _, c := range clients {
		lines = append(lines, line(c, r.now))
	}
	r.take(r.lines(lines...), r.now)
}

const one, other = "192.0.2.1", "192.0.2.2"

func TestWindowsGoOnFromASnapshot(t *testing.T) {
	was, s := before(t, []string{one}, nil)
	r := was.restarted(s, was.offset)
	r.journal.want(t, 1, "windows go on from a snapshot", "windows", 1, "bytes_to_read_again", 0)
	r.ask(one)
	r.journal.want(t, 1, "banned", "client", one)
}

// What was counted after the snapshot is read again, decides nothing and moves
// no position; the rest of the same batch is new.
func TestLinesSinceTheSnapshotAreReadAgain(t *testing.T) {
	was, s := before(t, []string{one}, []string{other, other, one, one}) // both are banned
	r := was.restarted(s, s.windows.Positions[0].Offset)
	if got := r.daemon.loaded.Positions; len(got) != 1 || got[0] != s.windows.Positions[0] {
		t.Errorf("read from %+v, want from %+v", got, s.windows.Positions)
	}
	if r.took() != nil {
		t.Error("something was handed over before there was anything new")
	}
	r.ask(other, other, one, one, "192.0.2.3", "192.0.2.3")
	r.journal.want(t, 1, "banned")
	r.journal.want(t, 1, "banned", "client", "192.0.2.3")
	u := r.one()
	if len(u.Bans) != 1 || len(u.Offences) != 1 || len(u.Positions) != 1 || u.Positions[0].Offset != r.offset {
		t.Errorf("handed over: %+v", u)
	}
}

// The counters of a log are of what is new to this daemon: steps and lines
// agree.
func TestReadAgainIsNotCountedByLog(t *testing.T) {
	was, s := before(t, []string{one}, []string{other})
	r := was.restarted(s, s.windows.Positions[0].Offset)
	r.ask(other, one, one)
	l := r.logs["site"]
	steps := uint64(0)
	for _, n := range l.Steps {
		steps += n
	}
	if steps != 2 || l.lines != 2 {
		t.Errorf("%d lines, and %d by their steps, want two: the first was read again", l.lines, steps)
	}
}

// A new line waits for all that were counted before it: here the window it
// falls into was used up by a decision that is still to be read again.
func TestNewLinesWait(t *testing.T) {
	was, s := before(t, []string{one, other}, []string{one, other}) // both are banned, and unbanned since
	s.loaded.Bans = nil
	second := &source.File{Log: "site", Path: "/var/log/site.log.2", Dev: 1, Ino: 3}
	fresh := func(n int64, lines ...string) *source.Batch {
		data := strings.Join(lines, "")
		return &source.Batch{File: second, Data: []byte(data), Offset: n, Next: n + int64(len(data)), Position: source.Position{
			Log: "site", Path: second.Path, Dev: 1, Ino: 3, Offset: n + int64(len(data)),
		}}
	}
	r := was.restarted(s, s.windows.Positions[0].Offset)
	r.take(fresh(0), r.now)
	r.take(fresh(0, line(one, r.now)), r.now)
	if n := len(r.again.held); n != 2 || r.took() != nil {
		t.Fatalf("%d batches wait", n)
	}
	r.ask(one, other)
	if r.again != nil {
		t.Fatal("still waiting")
	}
	r.journal.want(t, 0, "banned")
	u := r.took()
	if n := len(u); n != 2 || u[1].Positions[0].Offset == 0 {
		t.Errorf("handed over: %+v", u)
	}
	r.take(fresh(int64(len(line(one, r.now))), line(one, r.now)), r.now)
	r.journal.want(t, 1, "banned", "client", one)
}

// The file is gone, or does not come in time: its lines are not counted, nor
// decided when they come after all. What they had decided uses up its events.
func TestReadingAgainIsGivenUp(t *testing.T) {
	was, s := before(t, []string{one, other}, []string{one, other})
	s.loaded.Bans = nil // over, or lifted
	r := was.restarted(s, s.windows.Positions[0].Offset)
	late := time.Now().Add(firstPatience + time.Second)
	if !r.again.overdue(late) || r.again.overdue(time.Now()) {
		t.Fatal("patience is wrong")
	}
	r.settle(late)
	r.journal.want(t, 1, "not all lines since the last snapshot of the windows could be read again: some windows lack events", "files", 1)
	r.ask(one, other)
	r.journal.want(t, 0, "banned")
	r.ask(one)
	r.journal.want(t, 0, "banned")
	r.ask(one)
	r.journal.want(t, 1, "banned")
}

// Another file is in the place of the one that was read: all of it is new.
func TestReplacedFileIsNotReadAgain(t *testing.T) {
	was, s := before(t, []string{other}, []string{one, one})
	r := was.restarted(s, 0)
	if r.again != nil {
		t.Error("still waiting")
	}
	r.ask(other, "192.0.2.3", "192.0.2.3")
	r.journal.want(t, 1, "banned", "client", other) // its second, one is from the snapshot
	r.journal.want(t, 1, "banned", "client", "192.0.2.3")
}

// A lone truncation while it is read again.
func TestTruncatedWhileReadAgain(t *testing.T) {
	was, s := before(t, []string{other}, []string{other, one, one, other})
	r := was.restarted(s, s.windows.Positions[0].Offset)
	r.ask("192.0.2.3") // something else of the same length stands there: it can't be known
	r.offset = 0
	r.take(r.lines(), r.now)
	r.ask("192.0.2.4", "192.0.2.4")
	r.journal.want(t, 1, "banned")
	r.journal.want(t, 1, "banned", "client", "192.0.2.4")
}

// What a journal sends again says so itself: its lines may be fewer or longer than
// they were, and what is new counts from the first one on.
func TestJournalIsReadAgain(t *testing.T) {
	was, s := beforeWith(t, "[logs.journal]\njournal = [\"x.service\"]\n"+strings.Replace(web, "[jails.web]", "[jails.web]\nlog = [\"site\", \"journal\"]", 1), []string{one}, nil)
	at := func(offset int64, cursor string) state.Position {
		return state.Position{Log: "journal", Path: "journal:x", Offset: offset, Cursor: cursor}
	}
	s.windows.Positions = append(s.windows.Positions, at(100, "then"))
	s.loaded.Positions = append(s.loaded.Positions, at(900, "now"))
	r := was.restarted(s, was.offset)
	if r.daemon.counted["journal"].Cursor != "now" {
		t.Errorf("read again up to %+v", r.daemon.counted)
	}
	send := func(offset int64, again bool, clients ...string) {
		b := &source.Batch{File: &source.File{Log: "journal", Path: "journal:x"}, Offset: offset, Again: again}
		for _, c := range clients {
			b.Data = append(b.Data, line(c, r.now)...)
		}
		b.Next = offset + int64(len(b.Data))
		b.Position = source.Position(at(b.Next, "later"))
		r.take(b, r.now)
	}
	send(100, true)
	send(100, true, other)
	send(900, true, "192.0.2.3") // beyond what it was
	if r.again == nil {
		t.Fatal("does not wait for what is new")
	}
	send(900, false)
	if r.again != nil {
		t.Fatal("waits still")
	}
	send(900, false, other, one)
	r.journal.want(t, 1, "banned", "client", one)
	r.journal.want(t, 1, "banned", "client", other)
	r.ask("192.0.2.3")
	r.journal.want(t, 1, "banned", "client", "192.0.2.3")
}

// More waits than may: the reading again is given up.
func TestTooMuchWaits(t *testing.T) {
	was, s := before(t, []string{one}, []string{other})
	r := was.restarted(s, s.windows.Positions[0].Offset)
	r.again.size = maxHeld
	b := r.lines(line("192.0.2.3", r.now))
	b.File = &source.File{Log: "site", Path: "/x", Dev: 8, Ino: 9}
	b.Position = source.Position{Log: "site", Path: "/x", Dev: 8, Ino: 9, Offset: b.Next}
	r.take(b, r.now)
	if r.again != nil {
		t.Error("still waiting")
	}
}

// Unbanned and forgiven after the snapshot: what was cleared doesn't come back.
func TestUnbanSinceTheSnapshotHolds(t *testing.T) {
	was, s := before(t, []string{one, other}, nil)
	s.loaded.Pardons = []state.Pardon{{Target: pfx(one + "/32"), Before: was.now, Keep: was.now.Add(time.Hour)}}
	r := was.restarted(s, was.offset)
	r.now = r.now.Add(2 * time.Second)
	r.ask(one, other)
	r.journal.want(t, 0, "banned", "client", one)
	r.journal.want(t, 1, "banned", "client", other)
}

// A ban that the kernel holds and the state doesn't was decided, and has used
// up its events.
func TestAdoptedBanUsesUpItsEvents(t *testing.T) {
	was, s := before(t, []string{one, other}, nil)
	s.loaded.Bans = []state.Ban{held(one+"/32", was.now, time.Hour, adoptedJail, "firewall")}
	s.adopted = []netip.Prefix{pfx(one + "/32")}
	r := was.restarted(s, was.offset)
	r.detect.Unban(pfx(one + "/32")) // it is over
	r.ask(one, other)
	r.journal.want(t, 0, "banned", "client", one)
	r.journal.want(t, 1, "banned", "client", other)
}

// A ban that was only observed, and not read again, has used up its events, too.
func TestObservedBanUsesUpItsEvents(t *testing.T) {
	was, s := before(t, []string{one}, nil)
	b := held(one+"/32", was.now, time.Hour, "web")
	b.Owners[0].Event = was.now
	s.loaded.Bans = []state.Ban{b}
	r := was.restarted(s, was.offset)
	r.ask(one)
	r.journal.want(t, 0, "banned")
}

// The disk's number is another one than before: it is the same file.
func TestReadAgainUnderAnotherDevice(t *testing.T) {
	was, s := before(t, []string{one}, []string{other, other})
	r := newRig(t, s)
	r.file = &source.File{Log: "site", Path: was.file.Path, Dev: 77, Ino: was.file.Ino}
	r.offset = s.windows.Positions[0].Offset
	r.take(r.lines(), r.now)
	r.handOver()
	old := s.loaded.Positions[0]
	if u := r.one(); len(u.Positions) != 1 || u.Positions[0].Dev != 77 || u.Positions[0].Offset != old.Offset {
		t.Errorf("handed over: %+v, want what is stored under the new number", u)
	}
	r.ask(other)
	// What is stored under the old number is forgotten meanwhile.
	r.take(&source.Batch{File: was.file, Position: source.Position(old), Offset: old.Offset, Next: old.Offset, Final: true}, r.now)
	r.ask(other)
	if r.again != nil {
		t.Error("still waiting")
	}
	r.journal.want(t, 0, "banned")
	if u := r.one(); len(u.ForgetPositions) != 1 || u.ForgetPositions[0] != old.Key() {
		t.Errorf("handed over: %+v, want the old number forgotten", u)
	}
}

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
	list := func(p ...state.Position) []state.Position { return p }
	journal := func(offset int64) state.Position {
		return state.Position{Log: "journal", Path: "journal:x", Offset: offset, Cursor: "x"}
	}
	units, empty := journal(2), journal(0)
	units.Path, empty.Cursor = "journal:y", ""
	socket := state.Position{Log: "site", Path: "unix:/x", Offset: 5}
	otherLog, gone := p(9, 10, a), p(8, 10, a)
	otherLog.Log, gone.Log = "journal", "gone"
	away, inJournal, left, day := p(5, 10, a), journal(2), p(6, 10, a), p(7, 10, a)
	away.Log, inJournal.Log, left.Path, day.Path = "gone", "site", "/var/log/other.log", "/var/log/day-1.log"
	awayNow, inJournalNow, leftNow, dayNow := away, inJournal, left, day
	awayNow.Offset, inJournalNow.Offset, leftNow.Offset, dayNow.Offset = 20, 20, 20, 20
	moved := p(1, 10, a)
	moved.Dev = 2
	born := func(ino uint64, head string) state.Position { return p(ino, 0, head) }
	type file struct{ from, upTo int64 }
	ended := func(p state.Position, offset, torn int64) state.Note {
		return state.Note{What: state.NoteFinished, Reached: []state.Reached{{Log: p.Log, Dev: p.Dev, Ino: p.Ino, Offset: offset, Torn: torn}}}
	}
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
		"nothing since":          {taken: list(p(1, 10, a)), stored: list(p(1, 10, a)), holds: a, resume: list(p(1, 10, a))},
		"more since":             {taken: list(p(1, 10, a)), stored: list(p(1, 50, longer)), holds: longer, resume: list(p(1, 10, a)), files: []file{{10, 50}}},
		"on another device":      {taken: list(moved), stored: list(p(1, 50, a)), holds: longer, resume: list(p(1, 10, a)), files: []file{{10, 50}}},
		"born since":             {taken: list(p(1, 10, a)), stored: list(p(1, 10, a), p(2, 40, a)), holds: a, resume: list(p(1, 10, a), born(2, a)), files: []file{{0, 40}}},
		"truncated since":        {taken: list(p(1, 1000, b)), stored: list(p(1, 50, a)), holds: a, resume: list(born(1, a)), files: []file{{0, 50}}, lost: 1},
		"and has grown":          {taken: list(p(1, 10, b)), stored: list(p(1, 50, longer)), holds: longer, resume: list(born(1, longer)), files: []file{{0, 50}}, lost: 1},
		"or is small":            {taken: list(p(1, 20, longer)), stored: list(p(1, 9, a)), holds: longer, resume: list(born(1, a)), files: []file{{0, 9}}, lost: 1},
		"replaced while down":    {taken: list(p(1, 10, a)), stored: list(p(1, 50, a)), holds: b, resume: list(p(1, 50, a)), lost: 1},
		"cut short while down":   {taken: list(p(1, 0, "")), stored: list(p(1, 50, longer)), holds: a, resume: list(p(1, 50, longer)), lost: 1},
		"compressed":             {taken: list(p(1, 10, a)), stored: list(p(1, 50, a)), resume: list(p(1, 50, a)), lost: 1},
		"finished since":         {taken: list(p(1, 10, a), p(3, 12, a)), stored: list(p(1, 10, a)), notes: []state.Note{ended(p(3, 0, a), 18, 0)}, holds: longer, resume: list(p(1, 10, a), p(3, 12, a)), files: []file{{12, 18}}},
		"and removed":            {taken: list(p(1, 10, a), p(3, 12, a)), stored: list(p(1, 10, a)), notes: []state.Note{ended(p(3, 0, a), 18, 0)}, resume: list(p(1, 10, a)), lost: 1},
		"and another one is it":  {taken: list(p(1, 10, a), p(3, 12, a)), stored: list(p(1, 10, a)), notes: []state.Note{ended(p(3, 0, a), 24, 0)}, holds: longer, resume: list(p(1, 10, a)), lost: 1},
		"lost its position":      {taken: list(p(1, 10, a), p(3, 12, a)), stored: list(p(1, 10, a)), notes: []state.Note{ended(p(4, 0, a), 18, 0)}, holds: longer, resume: list(p(1, 10, a)), lost: 1},
		"of a damaged state":     {taken: list(p(1, 10, a)), stored: list(p(1, 50, longer)), damaged: state.Loaded{Damaged: "x"}, holds: longer, err: "records of the state file are lost"},
		"or one with gaps":       {taken: list(p(1, 10, a)), stored: list(p(1, 50, longer)), damaged: state.Loaded{Lost: 1}, holds: longer, err: "records of the state file are lost"},
		"too much has happened":  {taken: list(p(1, 10, a)), stored: list(p(1, 50, longer)), notes: []state.Note{{What: state.NoteFull}}, holds: longer, err: "more has been decided since"},
		"a log that is new":      {taken: list(otherLog), stored: list(p(1, 10, a)), holds: a, resume: list(p(1, 10, a)), lost: 0},
		"the journal":            {taken: list(journal(2)), stored: list(journal(5)), resume: list(journal(2)), files: []file{{2, 5}}},
		"another journal":        {taken: list(units), stored: list(journal(5)), resume: list(journal(5)), lost: 1},
		"no journal before":      {taken: list(socket), stored: list(journal(9)), resume: list(journal(9)), lost: 1},
		"a journal from then on": {taken: list(empty), stored: list(journal(5)), resume: list(journal(5)), lost: 1},
		"a socket":               {taken: list(p(1, 10, a)), stored: list(socket, p(1, 10, a)), holds: a, resume: list(socket, p(1, 10, a))},
		"no files at all":        {},
		"ahead of the state":     {taken: list(p(1, 60, a)), stored: list(p(1, 50, a)), holds: a, err: "ahead"},
		"too much to read":       {taken: list(p(1, 60, a)), stored: list(p(1, 2<<30, a)), holds: a, err: "bytes have been counted since"},
		"the log is gone since":  {taken: list(gone, p(1, 10, a)), stored: list(p(1, 10, a)), holds: a, resume: list(p(1, 10, a))},
	} {
		look := func(_ *state.Position, n int64) ([]byte, int64, bool) {
			return []byte(tt.holds[:min(int(n), len(tt.holds))]), int64(len(tt.holds)), tt.holds != ""
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
			if is := (file{f.from, f.upTo}); is != tt.files[0] {
				t.Errorf("%s: read again %+v, want %+v", name, is, tt.files[0])
			}
		}
	}
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

// What is noted goes with the snapshot that it follows: it is forgotten when a
// later one is durable, and is never more than twice what may be.
func TestNotesAreForgotten(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.notes.max = 10
	d := newDisk()
	finish := func(n int) {
		for range n {
			b := r.lines()
			b.Final = true
			r.batch(b, r.now)
		}
	}
	stored := func(want int, full bool) {
		t.Helper()
		for _, u := range r.took() {
			d.commit(u)
		}
		found := false
		for _, n := range d.notes {
			found = found || n.What == state.NoteFull
		}
		if len(d.notes) != want || found != full {
			t.Fatalf("%d notes are stored, full: %v; want %d, %v: %+v", len(d.notes), found, want, full, d.notes)
		}
	}
	finish(1)
	stored(0, false) // nobody will ask
	first := r.count(r.now)
	finish(3)
	stored(1+3, false)
	r.count(r.now) // is not stored
	finish(1)
	stored(1+3+1+1, false)
	r.snapshots.stored.Store(first.mark)
	third := r.count(r.now)
	stored(1+3+1+1+1, false)
	r.snapshots.stored.Store(third.mark)
	finish(9)
	stored(1+3+1+1+1+5, true)
	r.count(r.now)
	stored(1, false) // the third is of no use any more
	finish(1)
	stored(2, false)
}

// Windows go on after a stop and a start; a snapshot that can't be used is no
// reason not to start, nor is one that can't be stored.
func TestWindowsOverRestarts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil  func(path string) error
		says   string
		banned int
	}{
		"kept":    {func(string) error { return nil }, "windows go on from a snapshot", 1},
		"damaged": {func(path string) error { return os.Truncate(path, 40) }, "windows begin at zero: what was counted before can't be read", 0},
		"newer": {func(path string) error {
			data, err := os.ReadFile(path)
			if err == nil {
				data[len("tailban windows\n")]++
				err = os.WriteFile(path, data, 0o600)
			}
			return err
		}, "windows begin at zero: what was counted before can't be read", 0},
		"removed": {os.Remove, "running", 0},
		"of another state": {func(path string) error { return os.Remove(filepath.Join(filepath.Dir(path), stateFile)) },
			"windows begin at zero: the snapshot of what was counted can't be used", 1}, // a first start, which looks back
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, t.TempDir())
			r := s.run(s.config(logOnly))
			s.requests("203.0.113.201", 2)
			s.requests("203.0.113.202", 3) // the last line bans: all have been counted then
			r.waitBanned("203.0.113.202")
			r.stop()
			check(t, tt.spoil(filepath.Join(s.state, windowsFile)))
			r = s.run(s.config(logOnly))
			s.requests("203.0.113.201", 1)
			s.requests("203.0.113.203", 3)
			r.waitBanned("203.0.113.203")
			r.stop()
			if len(r.journal.said(tt.says)) != 1 {
				t.Errorf("%q was not said", tt.says)
			}
			r.journal.want(t, tt.banned, "banned", "client", "203.0.113.201")
			if _, err := state.LoadWindows(filepath.Join(s.state, windowsFile)); err != nil {
				t.Errorf("the next snapshot can't be read: %v", err)
			}
		})
	}
}

func TestSnapshotThatCantBeStored(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	check(t, os.MkdirAll(filepath.Join(s.state, windowsFile, "in the way"), 0o700))
	r := s.run(s.config(logOnly))
	s.requests("203.0.113.201", 3)
	r.waitBanned("203.0.113.201")
	r.stop()
	r.journal.want(t, 1, "windows begin at zero: what was counted before can't be read")
	r.journal.want(t, 1, "windows can't be stored: after a crash they would be counted from an earlier moment on, or from none")
	if len(s.stored().Bans) != 1 {
		t.Error("the ban is not stored")
	}
}

// A file that was born after the snapshot is read again from its first byte,
// if it is still the one that was counted.
func TestFileBornSinceTheSnapshot(t *testing.T) {
	now := time.Now()
	w := write(t, filepath.Join(t.TempDir(), "access.log"), []string{line(one, now), line(one, now), line(other, now)})
	size := int64(len(w.data))
	for _, tt := range []struct {
		is     string
		banned int
	}{{one, 0}, {"192.0.2.9", 1}} {
		was, s := beforeWith(t, strings.Replace(web, `"/var/log/site.log"`, fmt.Sprintf(`["/var/log/site.log", %q]`, w.Path), 1), []string{other}, nil)
		s.loaded.Positions = append(s.loaded.Positions, state.Position(w.batch(0, size).Position))
		r := newRig(t, s)
		is := *w
		is.data = []byte(line(tt.is, now) + line(tt.is, now) + line(other, now))
		r.take(is.batch(0, 0), now)
		r.take(is.batch(0, size), now)
		if r.again != nil {
			t.Errorf("%s: still waiting", tt.is)
		}
		r.journal.want(t, tt.banned, "banned", "client", tt.is)
		r.journal.want(t, tt.banned, "banned", "client", other) // it has one in the window
		was.took()
	}
}

// A snapshot that was taken and is not stored is no reason to leave out the one of
// an orderly stop.
func TestStopWhileASnapshotWaits(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	s := r.engine.snapshots
	s.flush = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	p := startPart(context.Background(), s.run)
	wait(t, "the disk to be free", func() bool { return len(s.ready) == 1 })
	r.requests(one)
	r.engine.snapshot(r.now)
	last := r.engine.last(r.now)
	p.stop(patience)
	if last == nil {
		t.Fatal("there is none")
	}
	if !s.saveLast(last) {
		t.Fatal("it can't be stored")
	}
	if r.engine.last(r.now) != nil {
		t.Error("there is another one, which says nothing new")
	}
}

// A disk that hangs holds the engine up for nothing: no other snapshot is taken
// until the one before is stored, and none without news.
func TestSnapshotsWaitForTheDisk(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	s := r.engine.snapshots
	hangs := make(chan struct{})
	s.flush = func(context.Context) error { <-hangs; return nil }
	r.engine.snapshot(r.now)
	if len(s.taken) != 0 {
		t.Error("one is taken before it can be stored")
	}
	p := startPart(context.Background(), s.run)
	defer p.stop(patience)
	wait(t, "the disk to be free", func() bool { return len(s.ready) == 1 })
	r.engine.snapshot(r.now)
	if len(s.ready) == 0 {
		t.Error("one is taken without news")
	}
	r.requests(one)
	r.engine.snapshot(r.now)
	r.requests(one)
	r.engine.snapshot(r.now.Add(time.Hour))
	wait(t, "the snapshot to be on its way", func() bool { return len(s.taken) == 0 })
	r.engine.snapshot(r.now.Add(time.Hour))
	if len(s.taken) != 0 {
		t.Error("another one is taken while the disk hangs")
	}
	close(hangs)
	wait(t, "the snapshot to be stored", func() bool {
		w, err := state.LoadWindows(s.path)
		return err == nil && w != nil && len(w.Times) == 1
	})
	wait(t, "the disk to be free", func() bool { return len(s.ready) == 1 })
	r.engine.snapshot(s.next.Add(-time.Nanosecond))
	if len(s.ready) == 0 {
		t.Error("one is taken before it is due")
	}
	r.engine.snapshot(s.next)
	wait(t, "the next snapshot to be stored", func() bool {
		w, err := state.LoadWindows(s.path)
		return err == nil && w != nil && len(w.Times) == 0 && len(w.Bans) == 1 // a decision has used them up
	})
}

// A stop while lines are read again leaves to the next start all that comes
// again: files, the rests of compressed ones, marks of patterns, the journal.
// What a socket or a pipe has sent is counted.
func TestStopWhileReadingAgain(t *testing.T) {
	at := func(path string, dev, ino uint64, cursor string) source.Position {
		return source.Position{Log: "site", Path: path, Dev: dev, Ino: ino, Cursor: cursor}
	}
	for name, tt := range map[string]struct {
		position source.Position
		counted  bool
	}{
		"a file":                   {at("/var/log/new.log", 1, 9, ""), false},
		"the rest of a compressed": {at("/var/log/site.log", 1<<63|1, 9, ""), false},
		"a pattern":                {at("/var/log/*.log", 0, 9, ""), false},
		"the journal":              {at("journal:x", 0, 0, "s=1;i=2"), false},
		"a socket":                 {at("unix:/x", 0, 0, ""), true},
	} {
		was, s := before(t, []string{other}, []string{other})
		r := was.restarted(s, s.windows.Positions[0].Offset)
		r.took()
		sent := make(chan *source.Batch, 2)
		for range cap(sent) { // one waits already, one is still to be taken
			l := line(one, r.now)
			tt.position.Offset += int64(len(l))
			sent <- &source.Batch{
				File: &source.File{Log: "site", Path: tt.position.Path, Dev: tt.position.Dev, Ino: tt.position.Ino},
				Data: []byte(l), Offset: tt.position.Offset - int64(len(l)), Next: tt.position.Offset, Position: tt.position,
			}
		}
		r.take(<-sent, r.now)
		r.lastOfStreams(sent, r.now)
		n := 0
		for _, u := range r.took() {
			n += len(u.Positions)
		}
		if counted := n == 2; counted != tt.counted || n == 1 {
			t.Errorf("%s: %d batches were counted", name, n)
		}
		banned := 0
		if tt.counted {
			banned = 1
		}
		r.journal.want(t, banned, "banned", "client", one)
	}
}
