package state

import (
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// noon is "now" in most tests.
var noon = time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)

// testBan returns a ban of the n-th address, running at noon.
func testBan(n int) Ban {
	addr := netip.AddrFrom4([4]byte{198, 51, byte(n >> 8), byte(n)})
	return Ban{
		Target: netip.PrefixFrom(addr, 32),
		Origin: "web1",
		Owners: []Owner{{
			Jail:    "sign-in",
			Client:  addr,
			Since:   noon.Add(-time.Minute),
			Until:   noon.Add(time.Hour),
			Actions: []string{"firewall"},
			Offence: 1 + n%3,
			Count:   11,
			Event:   noon.Add(-61 * time.Second),
			Line:    LineID{Path: "/var/log/nginx/access.log", Dev: 7, Ino: 1 << 60, Offset: int64(n) * 100},
		}},
	}
}

func testBans(n int) []Ban {
	bans := make([]Ban, n)
	for i := range bans {
		bans[i] = testBan(i)
	}
	return bans
}

func testOffence(n int) Offence {
	return Offence{Jail: "web", Target: testBan(n).Target, Count: n + 1, Last: noon.Add(-time.Hour)}
}

func testPosition(n int) Position {
	return Position{
		Log: "nginx", Path: "/var/log/nginx/access.log",
		Dev: 7, Ino: uint64(n), Offset: int64(n) << 33,
		Head: "5f3c", HeadLen: 512,
	}
}

// testPardon returns a pardon of all jails if n is 0.
func testPardon(n int) Pardon {
	jail := ""
	if n > 0 {
		jail = "web"
	}
	return Pardon{
		Target: netip.PrefixFrom(testBan(n).Target.Addr(), 31).Masked(), Jail: jail,
		Since: noon.Add(-time.Minute), Before: noon.Add(30 * time.Minute), Keep: noon.Add(time.Hour),
		Reason: "our own test", By: "anna",
	}
}

func testAllowance(n int) Allowance {
	return Allowance{
		Target: testBan(n).Target, Since: noon.Add(-time.Minute), Until: noon.Add(time.Hour),
		Reason: "load test", By: "anna",
	}
}

// testHold returns a hold without an end if n is 0.
func testHold(n int) Hold {
	h := Hold{Jail: "web" + strconv.Itoa(n), Since: noon.Add(-time.Minute), Reason: "sale", By: "ben"}
	if n > 0 {
		h.Until = noon.Add(time.Hour)
	}
	return h
}

// testNote returns one that has a bit of everything.
func testNote(n uint64) Note {
	return Note{
		N: n, What: NoteDecided, Jail: "web", Target: testBan(3).Target, Client: testBan(3).Target.Addr(),
		Event: noon.Add(-time.Minute), Until: noon.Add(time.Hour), Offence: 2, Enforced: true, Observe: true,
		Allow: []netip.Prefix{testBan(4).Target}, Disallow: []netip.Prefix{testBan(5).Target},
		Reached: []Reached{{Log: "nginx", Dev: 7, Ino: 3, Offset: 1 << 40, Anew: true, Torn: 5, Left: 9}},
	}
}

func statePath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state", "state.db")
}

// mustOpen opens a store that is closed at the end of the test.
func mustOpen(t *testing.T, path string, now time.Time) (*Store, *Loaded) {
	t.Helper()
	s, l, err := Open(path, now)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s, l
}

func mustCommit(t *testing.T, s *Store, u Update) {
	t.Helper()
	if err := s.Commit(u); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// sound fails the test if opening found anything to complain about.
func sound(t *testing.T, l *Loaded) {
	t.Helper()
	if l.Damaged != "" || l.Why != nil || l.Lost != 0 {
		t.Fatalf("file should be sound, got damaged %q, lost %d: %v", l.Damaged, l.Lost, l.Why)
	}
}

// recordsOf returns the update that would store what was loaded.
func recordsOf(l *Loaded) Update {
	return Update{
		Bans: l.Bans, Offences: l.Offences, Positions: l.Positions,
		Pardons: l.Pardons, Allowances: l.Allowances, Holds: l.Holds, Notes: l.Notes,
	}
}

func banTargets(bans []Ban) []string {
	var s []string
	for i := range bans {
		s = append(s, bans[i].Target.String())
	}
	slices.Sort(s)
	return s
}

func nativeUint64(n uint64) []byte { return binary.NativeEndian.AppendUint64(nil, n) }
