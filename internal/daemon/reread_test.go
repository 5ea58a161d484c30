package daemon

import (
	"net/netip"
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
		return state.Position{Log: "journal", Path: "journal:x.service", Offset: offset, Cursor: cursor}
	}
	s.windows.Positions = append(s.windows.Positions, at(100, "then"))
	s.loaded.Positions = append(s.loaded.Positions, at(900, "now"))
	r := was.restarted(s, was.offset)
	if r.daemon.counted["journal"].Cursor != "now" {
		t.Errorf("read again up to %+v", r.daemon.counted)
	}
	send := func(offset int64, again bool, clients ...string) {
		b := &source.Batch{File: &source.File{Log: "journal", Path: "journal:x.service"}, Offset: offset, Again: again}
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

// A last line without line feed, of a file that was read to its end since the
// snapshot, does not come while the file is open: nothing waits for it, and it is
// not new when it comes.
func TestTornLineIsNotWaitedFor(t *testing.T) {
	r := newRecalled(t, web)
	torn := strings.TrimSuffix(r.line(other, 0), "\n")
	last := r.cut(1, 0, []string{r.line("192.0.2.3", 0), torn})
	last.Final = true
	r.take(last, r.now)
	for _, u := range r.took() {
		r.disk.commit(u)
	}
	s := start{config: web, actions: []string{"firewall"}, loaded: r.disk.loaded(), windows: r.windows}
	s.look = func(*state.Position, int64) ([]byte, int64, string, bool) { return nil, last.Next, r.file.Path, true }
	next := newRig(t, s)
	next.take(r.cut(1, 0, nil), r.now)
	next.take(r.cut(1, 0, []string{r.line("192.0.2.3", 0)}), r.now)
	if next.again != nil {
		t.Fatal("waits still")
	}
	end := r.cut(1, int64(len(r.line("192.0.2.3", 0))), []string{torn})
	end.Final = true
	next.take(end, r.now)
	next.take(r.cut(0, 0, nil), r.now)
	next.take(r.cut(0, 0, []string{r.line(other, 0), r.line("192.0.2.3", 0)}), r.now)
	next.journal.want(t, 0, "banned", "client", other)
	next.journal.want(t, 1, "banned", "client", "192.0.2.3")
}

// That one file has come doesn't mean that what reads another has started yet; when
// all have, each next line must come soon.
func TestPatienceForEachFile(t *testing.T) {
	r := newRecalled(t, web)
	r.send(0, r.line(one, 0), r.line(other, 0))
	r.send(1, r.line(other, 0), r.line("192.0.2.3", 0))
	for _, u := range r.took() {
		r.disk.commit(u)
	}
	next := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: r.disk.loaded(), windows: r.windows})
	begun := next.now
	take := func(file int, lines ...string) {
		next.take(r.cut(file, r.at[file], lines), begun)
	}
	overdue := func(after time.Duration, want bool) {
		t.Helper()
		if next.again == nil || next.again.overdue(begun.Add(after)) != want {
			t.Errorf("%v after the start it is overdue: %v", after, !want)
		}
	}
	overdue(firstPatience-time.Second, false)
	take(0)
	take(0, r.sent[0][0])
	overdue(firstPatience-time.Second, false)
	overdue(firstPatience+time.Second, true)
	take(1)
	overdue(firstPatience-time.Second, false)
	take(1, r.sent[1][0])
	overdue(rereadPatience-time.Second, false)
	overdue(rereadPatience+time.Second, true)
}

// What has no lines takes memory as well.
func TestTooManyEmptyBatchesWait(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, and does one thing after the other")
	}
	was, s := before(t, []string{one}, []string{other})
	r := was.restarted(s, s.windows.Positions[0].Offset)
	for n := 0; r.again != nil; n++ {
		if n > maxHeld/256 {
			t.Fatalf("%d batches wait", n)
		}
		r.take(&source.Batch{File: r.file, Position: source.Position{Log: "site", Path: "/x", Dev: 8, Ino: 9}}, r.now)
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
		"the journal":              {at("journal:x.service", 0, 0, "s=1;i=2"), false},
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
