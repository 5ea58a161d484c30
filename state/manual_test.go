package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

func TestLaterWordsWin(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	pardon, allowance, hold := testPardon(0), testAllowance(0), testHold(1)
	mustCommit(t, s, Update{
		Pardons: []Pardon{pardon, testPardon(1)}, Allowances: []Allowance{allowance, testAllowance(1)}, Holds: []Hold{hold, testHold(2)},
	})
	pardon.Before, allowance.Reason, hold.Until = noon, "once more", time.Time{}
	forgotten := testPardon(1)
	mustCommit(t, s, Update{
		Pardons: []Pardon{pardon}, ForgetPardons: []PardonKey{forgotten.Key(), pardon.Key()},
		Allowances: []Allowance{allowance}, ForgetAllowances: []netip.Prefix{testAllowance(1).Target, allowance.Target},
		Holds: []Hold{hold}, ForgetHolds: []string{testHold(2).Jail, hold.Jail},
	})
	mustClose(t, s)
	_, l := mustOpen(t, path, noon)
	sound(t, l)
	want := Update{Pardons: []Pardon{pardon}, Allowances: []Allowance{allowance}, Holds: []Hold{hold}}
	if got := recordsOf(l); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestWidestPardon(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	var all []Pardon
	for _, target := range []string{"0.0.0.0/0", "::/0"} {
		p := testPardon(0)
		p.Target = netip.MustParsePrefix(target)
		all = append(all, p)
	}
	mustCommit(t, s, Update{Pardons: all})
	mustClose(t, s)
	_, l := mustOpen(t, path, noon)
	sound(t, l)
	if !reflect.DeepEqual(l.Pardons, all) {
		t.Errorf("pardons are %+v, want %+v", l.Pardons, all)
	}
}

// What has ended is left out and leaves the file; a hold without an end stays.
func TestWhatEndsIsLeftOut(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	u := Update{Pardons: []Pardon{testPardon(0)}, Allowances: []Allowance{testAllowance(0)}, Holds: []Hold{testHold(0), testHold(1)}}
	mustCommit(t, s, u)
	mustClose(t, s)

	end := noon.Add(time.Hour)
	s, l := mustOpen(t, path, end.Add(-1))
	sound(t, l)
	if got := recordsOf(l); !reflect.DeepEqual(got, u) {
		t.Errorf("just before their end there are %+v, want %+v", got, u)
	}
	mustClose(t, s)
	s, l = mustOpen(t, path, end)
	sound(t, l)
	want := Update{Holds: []Hold{testHold(0)}}
	if got := recordsOf(l); !reflect.DeepEqual(got, want) {
		t.Errorf("at their end there are %+v, want %+v", got, want)
	}
	mustCommit(t, s, Update{Positions: []Position{testPosition(1)}})
	mustClose(t, s)
	_, l = mustOpen(t, path, noon)
	want.Positions = []Position{testPosition(1)}
	if got := recordsOf(l); !reflect.DeepEqual(got, want) {
		t.Errorf("the file still holds %+v, want %+v", got, want)
	}
}

// A clock that stepped back lets nothing run longer than it was to.
func TestWordsOfTheFuture(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	u := Update{Pardons: []Pardon{testPardon(0)}, Allowances: []Allowance{testAllowance(0)}, Holds: []Hold{testHold(0), testHold(1)}}
	mustCommit(t, s, u)
	mustClose(t, s)
	boot := time.Unix(60, 0).UTC()
	_, l := mustOpen(t, path, boot)
	sound(t, l)
	length := noon.Add(time.Hour).Sub(u.Holds[1].Since)
	for what, times := range map[string][2]time.Time{
		"pardon":    {l.Pardons[0].Since, l.Pardons[0].Keep},
		"allowance": {l.Allowances[0].Since, l.Allowances[0].Until},
		"hold":      {l.Holds[1].Since, l.Holds[1].Until},
	} {
		if !times[0].Equal(boot) || times[1].Sub(boot) != length {
			t.Errorf("%s runs from %v to %v, want %v from %v", what, times[0], times[1], length, boot)
		}
	}
	if p := l.Pardons[0]; !p.Before.Equal(boot.Add(31 * time.Minute)) {
		t.Errorf("the pardon is %+v, want it as long ahead as it was", p)
	}
	if h := l.Holds[0]; !h.Since.Equal(boot) || !h.Until.IsZero() {
		t.Errorf("the hold without an end is %+v", h)
	}
}

func TestTimesOfWordsAreStoredInUTC(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	odd := time.FixedZone("odd", 3*3600+1)
	p, a, h := testPardon(0), testAllowance(0), testHold(1)
	p.Before, p.Keep = p.Before.In(odd), p.Keep.In(odd)
	a.Since, a.Until = a.Since.In(odd), a.Until.In(odd)
	h.Since, h.Until = h.Since.In(odd), h.Until.In(odd)
	mustCommit(t, s, Update{Pardons: []Pardon{p}, Allowances: []Allowance{a}, Holds: []Hold{h}})
	mustClose(t, s)
	_, l := mustOpen(t, path, noon)
	sound(t, l)
	want := Update{Pardons: []Pardon{testPardon(0)}, Allowances: []Allowance{testAllowance(0)}, Holds: []Hold{testHold(1)}}
	if got := recordsOf(l); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// earlier is a file as an earlier version wrote it, and what it holds.
func earlier(t *testing.T, version int) (data []byte, holds Update) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("testdata/version%d.db", version))
	if err != nil {
		t.Fatal(err)
	}
	holds = Update{
		Bans:      testBans(3),
		Offences:  []Offence{testOffence(1), testOffence(2)},
		Positions: []Position{testPosition(1), testPosition(2)},
	}
	if version > 1 {
		holds.Pardons, holds.Allowances, holds.Holds = []Pardon{testPardon(0)}, []Allowance{testAllowance(0)}, []Hold{testHold(0)}
	}
	return data, holds
}

func placed(t *testing.T, data []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func storedVersion(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := scan(bytes.NewReader(data), int64(len(data))).version()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestFilesOfEarlierVersions(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) { takenUp(t, version) })
	}
}

func takenUp(t *testing.T, version int) {
	data, want := earlier(t, version)
	path := placed(t, data)
	s, l := mustOpen(t, path, noon)
	sound(t, l)
	if got := recordsOf(l); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	s.db.MaxSize = 1 // as on a full disk
	if err := s.Commit(Update{Bans: testBans(2000)}); err == nil {
		t.Fatal("commit beyond the size allowed: no error")
	}
	s.db.MaxSize = 0
	if v := storedVersion(t, path); v != version {
		t.Errorf("before the first commit the file has version %d", v)
	}
	want.Holds, want.Pardons, want.Allowances = []Hold{testHold(0)}, []Pardon{testPardon(0)}, []Allowance{testAllowance(0)}
	want.Notes = []Note{testNote(1)}
	mustCommit(t, s, Update{Holds: want.Holds, Pardons: want.Pardons, Allowances: want.Allowances, Notes: want.Notes})
	mustClose(t, s)
	if v := storedVersion(t, path); v != schemaVersion {
		t.Errorf("after it the file has version %d", v)
	}
	checkWithBolt(t, path)
	_, l = mustOpen(t, path, noon)
	sound(t, l)
	if got := recordsOf(l); !reflect.DeepEqual(got, want) {
		t.Errorf("after the upgrade: got  %+v\nwant %+v", got, want)
	}
}

// What can be read of a damaged file of an earlier version goes into one of ours.
func TestDamagedFilesOfEarlierVersions(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) { salvaged(t, version) })
	}
}

func salvaged(t *testing.T, version int) {
	data, want := earlier(t, version)
	m, err := findMeta(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	clear(data[int64(m.freelist)*m.pageSize:][:pageHeaderLen])
	path := placed(t, data)
	s, l := mustOpen(t, path, noon)
	if got := recordsOf(l); l.Damaged == "" || !reflect.DeepEqual(got, want) {
		t.Errorf("damaged %q, got  %+v\nwant %+v", l.Damaged, got, want)
	}
	mustCommit(t, s, Update{Holds: []Hold{testHold(0)}})
	mustClose(t, s)
	if v := storedVersion(t, path); v != schemaVersion {
		t.Errorf("the new file has version %d", v)
	}
	_, l = mustOpen(t, path, noon)
	sound(t, l)
}

// A file of ours that has lost a bucket is not taken for one of an earlier version.
func TestLostBucketIsDamage(t *testing.T) {
	for _, name := range []string{bucketBans, bucketPardons, bucketAllowances, bucketHolds, bucketNotes} {
		path := statePath(t)
		s, _ := mustOpen(t, path, noon)
		mustCommit(t, s, Update{Bans: testBans(2)})
		if err := s.db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(name)) }); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		_, l := mustOpen(t, path, noon)
		if l.Damaged == "" || l.Why == nil {
			t.Errorf("without bucket %s: damaged %q, why %v", name, l.Damaged, l.Why)
		}
	}
}

// What can be read can be stored again, and comes back as it was.
func FuzzManualRecords(f *testing.F) {
	f.Add([]byte(`{"target":"198.51.0.0/24","jail":"web","before":"2031-05-06T12:00:00+02:00","keep":"2031-05-06T12:00:00Z"}`))
	f.Add([]byte(`{"target":"::/0","since":"2031-05-06T12:00:00Z","until":"2031-05-06T13:00:00Z","by":"\ud800"}`))
	f.Add([]byte(`{"jail":"web","since":"0000-01-01T00:00:00Z","reason":"\u0000"}`))
	f.Add([]byte(`{"n":7,"what":"decided","jail":"web","target":"198.51.0.0/24","client":"198.51.0.7","event":"2031-05-06T12:00:00+02:00","reached":[{"log":"a","ino":3,"offset":5}]}`))
	f.Add([]byte(`{"n":7,"what":"decided","reached":[]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		again(t, payload, bucketPardons, pardonKey, (*Pardon).utc, func(p Pardon) Update { return Update{Pardons: []Pardon{p}} })
		again(t, payload, bucketAllowances, allowanceKey, (*Allowance).utc, func(a Allowance) Update { return Update{Allowances: []Allowance{a}} })
		again(t, payload, bucketNotes, noteKey, (*Note).utc, func(n Note) Update { return Update{Notes: []Note{n}} })
		again(t, payload, bucketHolds, holdKey, (*Hold).utc, func(h Hold) Update { return Update{Holds: []Hold{h}} })
	})
}

func again[T any, P checked[T]](t *testing.T, payload []byte, bucket string, keyOf func(P) []byte, utc func(P) T, in func(T) Update) {
	var v T
	if json.Unmarshal(payload, &v) != nil || P(&v).Check() != nil {
		return
	}
	key := keyOf(&v)
	read, err := decode(record{bucket, key, seal(bucket, key, payload)}, keyOf)
	if err != nil {
		t.Fatalf("%s: %+v can't be read: %v", bucket, v, err)
	}
	u := in(read)
	changes, err := u.changes()
	if err != nil || len(changes) != 1 || !slices.Equal(changes[0].key, key) {
		t.Fatalf("%s: read %+v, can't store it: %v", bucket, read, err)
	}
	back, err := decode(record(changes[0]), keyOf)
	if err != nil {
		t.Fatalf("%s: stored %+v, can't read it: %v", bucket, read, err)
	}
	// Printed: a list of none is the same whether it was left out or is empty.
	if got, want := fmt.Sprintf("%+v", utc(&back)), fmt.Sprintf("%+v", utc(&read)); got != want {
		t.Errorf("%s: got  %s\nwant %s", bucket, got, want)
	}
}
