package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// disk is what outlives a daemon: what was committed, and the last snapshot.
type disk struct {
	bans      map[netip.Prefix]state.Ban
	offences  map[state.OffenceKey]state.Offence
	positions map[state.PositionKey]state.Position
	notes     map[uint64]state.Note
	pardons   []state.Pardon
	windows   *state.Windows
}

func newDisk() *disk {
	return &disk{map[netip.Prefix]state.Ban{}, map[state.OffenceKey]state.Offence{}, map[state.PositionKey]state.Position{}, map[uint64]state.Note{}, nil, nil}
}

func (d *disk) commit(u state.Update) {
	for _, x := range u.Unbans {
		delete(d.bans, x)
	}
	for _, x := range u.ForgetOffences {
		delete(d.offences, x)
	}
	for _, x := range u.ForgetPositions {
		delete(d.positions, x)
	}
	for _, x := range u.ForgetNotes {
		delete(d.notes, x)
	}
	for _, x := range u.Notes {
		d.notes[x.N] = x
	}
	for _, x := range u.ForgetPardons {
		d.pardons = slices.DeleteFunc(d.pardons, func(p state.Pardon) bool { return p.Key() == x })
	}
	for _, x := range u.Pardons {
		d.pardons = append(slices.DeleteFunc(d.pardons, func(p state.Pardon) bool { return p.Key() == x.Key() }), x)
	}
	for _, x := range u.Bans {
		d.bans[x.Target] = x
	}
	for _, x := range u.Offences {
		d.offences[x.Key()] = x
	}
	for _, x := range u.Positions {
		d.positions[x.Key()] = x
	}
}

func (d *disk) loaded() state.Loaded {
	var l state.Loaded
	for _, x := range d.bans {
		l.Bans = append(l.Bans, x)
	}
	for _, x := range d.offences {
		l.Offences = append(l.Offences, x)
	}
	for _, x := range d.positions {
		l.Positions = append(l.Positions, x)
	}
	for _, n := range slices.Sorted(maps.Keys(d.notes)) {
		l.Notes = append(l.Notes, d.notes[n])
	}
	l.Pardons = d.pardons
	return l
}

// written is a log file as it is in the end.
type written struct {
	*source.File
	data []byte
	ends []int // of each line
}

func write(t testing.TB, path string, lines []string) *written {
	t.Helper()
	w := &written{data: []byte(strings.Join(lines, ""))}
	check(t, os.WriteFile(path, w.data, 0o600))
	info, err := os.Stat(path)
	check(t, err)
	st := info.Sys().(*syscall.Stat_t)
	w.File = &source.File{Log: "site", Path: path, Dev: uint64(st.Dev), Ino: st.Ino}
	end := 0
	for _, l := range lines {
		end += len(l)
		w.ends = append(w.ends, end)
	}
	return w
}

// batch is what a source would send of it, from one offset to another.
func (w *written) batch(from, to int64) *source.Batch {
	head := w.data[:min(to, 1024)]
	sum := sha256.Sum256(head)
	return &source.Batch{
		File: w.File, Data: w.data[from:to], Offset: from, Next: to, Behind: int64(len(w.data)) - to,
		Position: source.Position{Log: w.Log, Path: w.Path, Dev: w.Dev, Ino: w.Ino, Offset: to,
			Head: hex.EncodeToString(sum[:16]), HeadLen: int64(len(head)), Read: to},
	}
}

// decision is one, by what identifies it.
type decision struct {
	jail, target string
	ino          uint64
	offset       int64
	offence      int
}

// decisions are those that a daemon spoke of, in order.
func (r *rig) decisions(files []*written) []decision {
	var out []decision
	for _, msg := range []string{"banned", "would be banned (observe)", "offence found while catching up; its ban would be over"} {
		for _, x := range r.journal.said(msg) {
			d := decision{jail: x["jail"].(string), target: x["target"].(string), offset: int64(x["offset"].(float64)), offence: int(x["offence"].(float64))}
			for _, f := range files {
				if f.Path == x["file"] {
					d.ino = f.Ino
				}
			}
			out = append(out, d)
		}
	}
	return out
}

// replayed are the decisions of one that never stops.
func replayed(t testing.TB, config string, files []*written) []decision {
	t.Helper()
	c := parse(t, config)
	e := detector.NewEngine(rulesOf(c, nil, nil))
	format, err := c.Logs[0].Parser()
	check(t, err)
	l := e.Log("site", format)
	var out []decision
	for _, f := range files {
		from := 0
		for _, to := range f.ends {
			for _, d := range e.Line(l, f.data[from:to-1], false, detector.Line{Ino: f.Ino, Offset: int64(from)}, 0).Decisions {
				out = append(out, decision{d.Jail, d.Target.String(), d.Line.Ino, d.Line.Offset, d.Offence})
			}
			from = to
		}
	}
	return out
}

// lives reads files by daemon after daemon, each of which is killed at some
// moment and leaves what was committed by then and the last snapshot. It
// returns all decisions that were committed.
func lives(t *testing.T, rnd *rand.Rand, config string, files []*written) (all []decision, n int) {
	d := newDisk()
	begin := []state.Position{{Log: "site", Path: files[0].Path, Dev: files[0].Dev, Ino: files[0].Ino}}
	d.commit(state.Update{Positions: begin, Notes: []state.Note{{N: 1, What: state.NoteSnapshot}}})
	d.windows = &state.Windows{Positions: begin, Mark: 1}
	clock := time.Now()
	for n = 1; n < 1000; n++ {
		r := newRig(t, start{config: config, actions: []string{"firewall"}, loaded: d.loaded(), windows: d.windows})
		puts := r.took() // not durable yet
		crashed := false
		snapshot := func() {
			if r.again != nil {
				return
			}
			s := r.count(clock)
			for _, u := range append(puts, r.took()...) {
				d.commit(u)
			}
			puts, d.windows = nil, s.windows()
			r.snapshots.stored.Store(s.mark)
		}
		resume := map[uint64]int64{}
		for _, p := range r.daemon.loaded.Positions {
			resume[p.Ino] = p.Offset
		}
		followed := false // some file of it: the next was born later
	reading:
		for i, f := range files {
			at, known := resume[f.Ino]
			if !known && !followed {
				continue // finished
			}
			followed = true
			if known || i == 0 {
				r.take(f.batch(at, at), clock)
			}
			for at < int64(len(f.data)) {
				j, _ := slices.BinarySearch(f.ends, int(at)+1)
				to := int64(f.ends[min(len(f.ends)-1, j+rnd.IntN(12))])
				clock = clock.Add(2 * time.Second) // else not all would be spoken of
				r.take(f.batch(at, to), clock)
				at = to
				puts = append(puts, r.took()...)
				switch rnd.IntN(12) {
				case 0, 1, 2: // some of it becomes durable
					k := rnd.IntN(len(puts) + 1)
					for _, u := range puts[:k] {
						d.commit(u)
					}
					puts = puts[k:]
				case 3:
					snapshot()
				case 4:
					crashed = true
					break reading
				}
			}
			if i < len(files)-1 && !slices.ContainsFunc(d.windows.Positions, func(p state.Position) bool { return p.Ino == f.Ino }) {
				snapshot() // a file that came and went since the last one is not read again
			}
			if i < len(files)-1 { // as a source does it: the next one is known first
				if next := files[i+1]; resume[next.Ino] == 0 {
					r.take(next.batch(0, 0), clock)
				}
				last := f.batch(at, at)
				last.Final = true
				r.take(last, clock)
				puts = append(puts, r.took()...)
			}
		}
		if !crashed {
			for _, u := range puts {
				d.commit(u)
			}
		}
		for _, x := range r.decisions(files) {
			for i, f := range files {
				p, known := d.positions[state.PositionKey{Log: "site", Dev: f.Dev, Ino: f.Ino}]
				finished := slices.ContainsFunc(files[i+1:], func(f *written) bool {
					_, later := d.positions[state.PositionKey{Log: "site", Dev: f.Dev, Ino: f.Ino}]
					return later
				})
				if f.Ino == x.ino && (known && x.offset < p.Offset || !known && finished) {
					all = append(all, x)
				}
			}
		}
		if t.Failed() || !crashed {
			return all, n
		}
	}
	t.Error("it never ends")
	return all, n
}

// Killed at any moment, again and again, daemons decide in all their lives what
// a single one would have decided, each of it once: the same jail, target, line
// and offence. The bans of these lines are over by the clock, so that all of
// it goes by the times of the lines; several follow each other in a file.
func TestLivesDecideAsOne(t *testing.T) {
	t.Parallel()
	// A file that is finished, and is finished again in a later life.
	livesDecideAsOne(t, 2236809557306812042, 11)
	livesDecideAsOne(t, 18126635633943158414, 57)
	rounds, seed := 150, rand.Uint64()
	if testing.Short() {
		rounds = 30
	}
	t.Logf("seed %d", seed)
	total, decided := 0, 0
	for round := range rounds {
		n, decisions := livesDecideAsOne(t, seed, uint64(round))
		total, decided = total+n, decided+decisions
	}
	t.Logf("%d decisions in %d lives", decided, total)
	if total < 3*rounds || decided < rounds {
		t.Errorf("%d decisions in %d lives of %d rounds: too few to say anything", decided, total, rounds)
	}
}

// livesDecideAsOne is one round of it, and returns how many lives it had and how
// many decisions.
func livesDecideAsOne(t *testing.T, seed, round uint64) (n, decided int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, round))
	dir := t.TempDir()
	config := fmt.Sprintf(`
[logs.site]
files = "%s/access.log.*"
[jails.web]
limit = %d
window = "%ds"
ban = ["5s", "20s", "40s"]
actions = ["firewall"]
[jails.look]
limit = %d
window = "%ds"
ban = "10s"
mode = "observe"
[actions.firewall]
type = "nftables"
`, dir, rnd.IntN(6), 2+rnd.IntN(40), 1+rnd.IntN(4), 1+rnd.IntN(20))
	sec := time.Now().Add(-time.Hour)
	var files []*written
	for i := range 1 + rnd.IntN(3) {
		var lines []string
		for range 20 + rnd.IntN(150) {
			sec = sec.Add(time.Duration([]int{0, 0, 0, 1, 1, 3}[rnd.IntN(6)]) * time.Second)
			at := sec
			if rnd.IntN(5) == 0 {
				at = at.Add(-time.Duration(rnd.IntN(30)) * time.Second)
			}
			client := []string{"203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2"}[rnd.IntN(4)]
			lines = append(lines, line(client, at))
		}
		files = append(files, write(t, filepath.Join(dir, fmt.Sprintf("access.log.%d", i)), lines))
	}
	want := replayed(t, config, files)
	got, n := lives(t, rnd, config, files)
	order := func(a, b decision) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d, round %d: %d lives of %d files decided\n%v\nwant\n%v", seed, round, n, len(files), got, want)
	}
	return n, len(got)
}
