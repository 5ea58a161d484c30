package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

const damageBans = 200 // enough for branch pages

// intact is a file whose last commit only moved a position: when the latest
// meta page is damaged, bbolt can only offer the state before it.
type intact struct {
	data      []byte
	bans      []Ban
	offences  []Offence
	before    []Position
	positions []Position

	pardons    []Pardon
	allowances []Allowance
	holds      []Hold
	notes      []Note
}

func makeIntact(t *testing.T) *intact {
	t.Helper()
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	in := &intact{bans: testBans(damageBans)}
	for i := range damageBans {
		in.offences = append(in.offences, testOffence(i))
	}
	for i := range 3 {
		in.pardons = append(in.pardons, testPardon(i))
		in.allowances = append(in.allowances, testAllowance(i))
		in.holds = append(in.holds, testHold(i))
		in.notes = append(in.notes, testNote(1+uint64(i)))
	}
	for part := range slices.Chunk(in.bans, 50) { // several commits, so that there are free pages
		mustCommit(t, s, Update{Bans: part})
	}
	in.before = []Position{testPosition(1), testPosition(2)}
	mustCommit(t, s, Update{Offences: in.offences, Positions: in.before})
	mustCommit(t, s, Update{Pardons: in.pardons, Allowances: in.allowances, Holds: in.holds, Notes: in.notes})
	moved := testPosition(2)
	moved.Offset++
	in.positions = []Position{testPosition(1), moved}
	mustCommit(t, s, Update{Positions: []Position{moved}})
	mustClose(t, s)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in.data = data
	return in
}

// survive opens a damaged copy and fails the test unless the store works and
// what was loaded is true: nothing that was never committed, and nothing
// missing without a word.
func (in *intact) survive(t *testing.T, data []byte) *Loaded {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, l, err := Open(path, noon)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	in.checkTrue(t, l)
	if l.Damaged != "" {
		kept, err := os.ReadFile(l.Damaged)
		if err != nil || !bytes.Equal(kept, data) {
			t.Errorf("what was put aside is not the damaged file (%v)", err)
		}
	}

	whole := *l
	extra := testBan(60000)
	mustCommit(t, s, Update{Bans: []Ban{extra}})
	mustClose(t, s)
	again, l2, err := Open(path, noon)
	if err != nil {
		t.Fatalf("Open again: %v", err)
	}
	defer again.Close()
	sound(t, l2)
	if got, want := banTargets(l2.Bans), banTargets(append(slices.Clone(l.Bans), extra)); !slices.Equal(got, want) {
		t.Errorf("reopened store has %d bans, want %d", len(got), len(want))
	}
	l.Bans, l2.Bans = nil, nil
	l.Damaged, l.Why, l.Lost = "", nil, 0
	if !reflect.DeepEqual(l2, l) {
		t.Errorf("reopened store has\n%+v\nwant\n%+v", l2, l)
	}
	return &whole
}

func (in *intact) checkTrue(t *testing.T, l *Loaded) {
	t.Helper()
	if (l.Damaged != "" || l.Lost > 0) && l.Why == nil {
		t.Errorf("damaged %q, lost %d, but no reason", l.Damaged, l.Lost)
	}
	if l.Why == nil {
		whole := reflect.DeepEqual(l.Bans, in.bans) && reflect.DeepEqual(l.Offences, in.offences) &&
			(reflect.DeepEqual(l.Positions, in.positions) || reflect.DeepEqual(l.Positions, in.before)) &&
			reflect.DeepEqual(l.Pardons, in.pardons) && reflect.DeepEqual(l.Allowances, in.allowances) && reflect.DeepEqual(l.Holds, in.holds) && reflect.DeepEqual(l.Notes, in.notes)
		if !whole {
			t.Errorf("records are missing (%d bans, %d offences, %d positions, %d pardons, %d allowances, %d holds, %d notes) and nothing was said",
				len(l.Bans), len(l.Offences), len(l.Positions), len(l.Pardons), len(l.Allowances), len(l.Holds), len(l.Notes))
		}
	}
	subset(t, l.Bans, func(b *Ban) any { return b.Target }, in.bans)
	subset(t, l.Offences, func(o *Offence) any { return o.Key() }, in.offences)
	subset(t, l.Positions, func(p *Position) any { return p.Key() }, in.positions, in.before)
	subset(t, l.Pardons, func(p *Pardon) any { return p.Key() }, in.pardons)
	subset(t, l.Allowances, func(a *Allowance) any { return a.Target }, in.allowances)
	subset(t, l.Holds, func(h *Hold) any { return h.Jail }, in.holds)
	subset(t, l.Notes, func(n *Note) any { return n.N }, in.notes)
}

// subset fails the test unless each value is one of those committed for its
// key, and each key comes once.
func subset[T any](t *testing.T, got []T, keyOf func(*T) any, committed ...[]T) {
	t.Helper()
	allowed := map[any][]T{}
	for _, values := range committed {
		for i := range values {
			k := keyOf(&values[i])
			allowed[k] = append(allowed[k], values[i])
		}
	}
	for i := range got {
		k := keyOf(&got[i])
		if !slices.ContainsFunc(allowed[k], func(v T) bool { return reflect.DeepEqual(v, got[i]) }) {
			t.Errorf("never committed, or came twice: %+v", got[i])
		}
		delete(allowed, k)
	}
}

const pageSize = 4096

// pagesOf returns the pages of a file that a predicate on flags selects.
func pagesOf(data []byte, flags uint16) []int {
	var ids []int
	for id := 2; (id+1)*pageSize <= len(data); id++ {
		p, err := parsePage(data[id*pageSize:])
		if err == nil && p.id == uint64(id) && p.flags == flags && p.count > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestDamage(t *testing.T) {
	if os.Getpagesize() != pageSize {
		t.Skipf("pages of this machine have %d bytes", os.Getpagesize())
	}
	in := makeIntact(t)
	m, err := findMeta(bytes.NewReader(in.data), int64(len(in.data)))
	if err != nil {
		t.Fatal(err)
	}
	used := int(m.highWater) * pageSize
	garbage := func(b []byte) {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	onPage := func(id int, spoil func([]byte)) func([]byte) []byte {
		return func(d []byte) []byte { spoil(d[id*pageSize : (id+1)*pageSize]); return d }
	}
	zero := func(b []byte) { clear(b) }
	cut := func(n int) func([]byte) []byte { return func(d []byte) []byte { return d[:n] } }
	// onFreelist changes the page ids on the freelist page.
	onFreelist := func(change func(count, ids []byte)) func([]byte) []byte {
		return onPage(int(m.freelist), func(b []byte) { change(b[10:12], b[pageHeaderLen:]) })
	}
	latest, earlier := int(m.txid%2), int((m.txid+1)%2)

	tests := []struct {
		name    string
		spoil   func([]byte) []byte
		damaged bool
		bans    int // at least
	}{
		{"nothing", func(d []byte) []byte { return d }, false, damageBans},
		{"cut to a byte", cut(1), true, 0},
		{"cut inside the first meta page", cut(50), true, 0},
		{"cut to one meta page", cut(pageSize), true, 0},
		{"cut to both meta pages", cut(2 * pageSize), true, 0},
		{"cut in the middle", cut(used / 2), true, 0},
		{"cut by a byte of what is used", cut(used - 1), true, 1},
		{"cut to what is used", cut(used), false, damageBans},
		{"not a database", func([]byte) []byte { return []byte("bans = []\n") }, true, 0},
		{"zeros only", func(d []byte) []byte { clear(d); return d }, true, 0},
		{"garbage only", func(d []byte) []byte { garbage(d); return d }, true, 0},
		{"both meta pages zeroed", func(d []byte) []byte { clear(d[:2*pageSize]); return d }, true, 0},
		{"latest meta page zeroed", onPage(latest, zero), true, damageBans},
		{"earlier meta page zeroed", onPage(earlier, zero), true, damageBans},
		{"latest meta page garbage", onPage(latest, garbage), true, damageBans},
		{"latest meta page torn", onPage(latest, func(b []byte) { clear(b[pageHeaderLen+48:]) }), false, damageBans},
		{"freelist zeroed", onPage(int(m.freelist), zero), true, damageBans},
		{"freelist garbage", onPage(int(m.freelist), garbage), true, damageBans},
		{"freelist lacks a page", onFreelist(func(count, _ []byte) {
			binary.NativeEndian.PutUint16(count, binary.NativeEndian.Uint16(count)-1)
		}), true, damageBans},
		{"freelist names a page twice", onFreelist(func(_, ids []byte) { copy(ids, ids[8:16]) }), true, damageBans},
		{"freelist names a page outside", onFreelist(func(_, ids []byte) { copy(ids, nativeUint64(m.highWater)) }), true, damageBans},
		{"freelist names a meta page", onFreelist(func(_, ids []byte) { copy(ids, nativeUint64(1)) }), true, damageBans},
		{"freelist names the root", onFreelist(func(_, ids []byte) { copy(ids, nativeUint64(m.root)) }), true, 0},
		{"root zeroed", onPage(int(m.root), zero), true, 0},
		{"root garbage", onPage(int(m.root), garbage), true, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := in.survive(t, tt.spoil(bytes.Clone(in.data)))
			if tt.name == "freelist names the root" && len(l.Bans) > 0 {
				t.Errorf("%d bans came from a page that may hold anything", len(l.Bans))
			}
			if got := l.Damaged != ""; got != tt.damaged {
				t.Errorf("damaged = %v (%v), want %v", got, l.Why, tt.damaged)
			}
			if len(l.Bans) < tt.bans {
				t.Errorf("%d bans survived, want %d at least", len(l.Bans), tt.bans)
			}
		})
	}
}

// Each page in turn is spoilt: what stands on the others must survive.
func TestDamageOfEveryPage(t *testing.T) {
	if os.Getpagesize() != pageSize {
		t.Skipf("pages of this machine have %d bytes", os.Getpagesize())
	}
	in := makeIntact(t)
	perLeaf := pageSize / 300 // bans are longer than that
	spoilt := 0
	for _, id := range pagesOf(in.data, flagLeaf) {
		data := bytes.Clone(in.data)
		clear(data[id*pageSize : (id+1)*pageSize])
		c, bad := examine(bytes.NewReader(data), int64(len(data)), noon)
		l := &c.loaded
		in.checkTrue(t, l)
		lostBans, lostOffences := damageBans-len(l.Bans), damageBans-len(l.Offences)
		if bad == nil {
			continue // a free page
		}
		spoilt++
		if lostBans > 0 && lostOffences > 0 {
			if l.Lost == 0 {
				t.Errorf("page %d: all is gone and nothing counted", id)
			}
			continue // the root
		}
		if want := lostBans + lostOffences + 2 - len(l.Positions) + 3 - len(l.Notes); l.Lost != want {
			t.Errorf("page %d: Lost = %d, really %d", id, l.Lost, want)
		}
		if lostBans > perLeaf {
			t.Errorf("page %d: %d bans lost with one leaf", id, lostBans)
		}
	}
	if spoilt < 20 {
		t.Errorf("only %d pages were in use: this tests nothing", spoilt)
	}
}

func TestCountThatDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		name     string
		add      int64
		wantLost int
	}{
		{"records are missing", 5, 5},
		{"one too many", -1, 0},
		{"count is itself damaged", 1 << 60, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := statePath(t)
			s, _ := mustOpen(t, path, noon)
			mustCommit(t, s, Update{Bans: testBans(20)})
			err := s.db.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte(bucketBans))
				return b.SetSequence(uint64(20 + tt.add))
			})
			if err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			s, l := mustOpen(t, path, noon)
			if l.Damaged == "" || l.Why == nil || l.Lost != tt.wantLost || len(l.Bans) != 20 {
				t.Errorf("damaged %q, lost %d, %d bans, why %v; want damage, %d lost, 20 bans", l.Damaged, l.Lost, len(l.Bans), l.Why, tt.wantLost)
			}
			mustClose(t, s)
			_, l = mustOpen(t, path, noon)
			sound(t, l)
		})
	}
}

func TestRecordFoundTwiceIsLoadedOnce(t *testing.T) {
	k := appendPrefix(nil, testBan(1).Target)
	u := banOf(1)
	changes, err := u.changes()
	if err != nil {
		t.Fatal(err)
	}
	r := record{bucketBans, k, changes[0].value}
	im := &image{
		buckets: map[string]*bucketImage{bucketBans: {records: []record{r, r}, count: 2}},
		damage:  errors.New("damaged"),
	}
	c := im.contents(1<<20, noon)
	if len(c.loaded.Bans) != 1 || len(c.keep) != 1 || c.loaded.Lost != 1 {
		t.Errorf("%d bans loaded, %d kept, %d lost, want one each", len(c.loaded.Bans), len(c.keep), c.loaded.Lost)
	}
}

func TestForeignDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("theirs")); return err })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	_, l := mustOpen(t, path, noon)
	if l.Damaged == "" || l.Why == nil {
		t.Errorf("damaged %q, why %v; want it put aside", l.Damaged, l.Why)
	}
}

func TestNewerFormatOfDatabase(t *testing.T) {
	in := makeIntact(t)
	im := scan(bytes.NewReader(in.data), int64(len(in.data)))
	im.format++
	if _, err := im.version(); !errors.Is(err, ErrNewer) {
		t.Errorf("version: %v, want ErrNewer", err)
	}
}

func TestOnlyThreeDamagedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	unrelated := filepath.Join(dir, "state.db.backup")
	if err := os.WriteFile(unrelated, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The clock stands still twice and steps back once.
	times := []time.Time{noon, noon, noon.Add(time.Hour), noon.Add(2 * time.Hour), time.Unix(0, 0)}
	for i, now := range times {
		if err := os.WriteFile(path, []byte(fmt.Sprintf("damage %d", i)), 0o600); err != nil {
			t.Fatal(err)
		}
		s, l, err := Open(path, now)
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		kept, err := os.ReadFile(l.Damaged)
		if err != nil || string(kept) != fmt.Sprintf("damage %d", i) {
			t.Fatalf("file %d put aside holds %q, %v", i, kept, err)
		}
	}
	want := []string{
		"state.db", "state.db.backup",
		"state.db.damaged-19700101T000000Z",
		"state.db.damaged-20310506T130000Z", "state.db.damaged-20310506T140000Z",
	}
	if got := dirNames(t, dir); !slices.Equal(got, want) {
		t.Errorf("folder holds %v, want %v", got, want)
	}
}
