package state

import (
	"errors"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRoundTrip(t *testing.T) {
	path := statePath(t)
	s, l := mustOpen(t, path, noon)
	sound(t, l)
	if !reflect.DeepEqual(l, &Loaded{}) {
		t.Fatalf("new file holds %+v", l)
	}
	want := Update{
		Bans:      []Ban{testBan(1), testBan(2)},
		Offences:  []Offence{testOffence(1), testOffence(2)},
		Positions: []Position{testPosition(1), testPosition(2)},

		Pardons:    []Pardon{testPardon(0), testPardon(1)},
		Allowances: []Allowance{testAllowance(1), testAllowance(2)},
		Holds:      []Hold{testHold(0), testHold(1)},

		Notes: []Note{testNote(1), {N: 300, What: NoteSnapshot}},
	}
	o := &want.Bans[1].Owners[0]
	o.Reason, o.By, o.Limit, o.Window, o.Plane = "scans", "anna", 50, time.Minute, "direct"
	o.Sample = &Sample{Method: "GET", Path: "/.env", Status: 404, Agent: "curl"}
	mustCommit(t, s, want)
	mustClose(t, s)

	_, l = mustOpen(t, path, noon)
	sound(t, l)
	got := recordsOf(l)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestTimesAreStoredInUTC(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	b, o := testBan(1), testOffence(1)
	want := b.Owners[0].Until
	b.Owners[0].Until = want.In(time.FixedZone("odd", 3*3600+1)) // RFC 3339 has no seconds in offsets
	o.Last = o.Last.In(time.FixedZone("far", 30*3600))
	mustCommit(t, s, Update{Bans: []Ban{b}, Offences: []Offence{o}})
	mustClose(t, s)
	_, l := mustOpen(t, path, noon)
	sound(t, l)
	if got := l.Bans[0].Owners[0].Until; got != want {
		t.Errorf("Until = %v, want %v", got, want)
	}
	if got, want := l.Offences[0].Last, testOffence(1).Last; got != want {
		t.Errorf("Last = %v, want %v", got, want)
	}
}

func TestLaterValuesWin(t *testing.T) {
	longer := testBan(1)
	longer.Owners[0].Until = noon.Add(5 * time.Hour)
	moved := testPosition(1)
	moved.Offset = 99
	again := testOffence(1)
	again.Count = 77

	tests := []struct {
		name    string
		updates []Update
		want    Update
	}{
		{
			"within an update",
			[]Update{{Bans: []Ban{testBan(1), longer}, Offences: []Offence{testOffence(1), again}, Positions: []Position{testPosition(1), moved}}},
			Update{Bans: []Ban{longer}, Offences: []Offence{again}, Positions: []Position{moved}},
		},
		{
			"across updates",
			[]Update{
				{Bans: []Ban{testBan(1)}, Offences: []Offence{testOffence(1)}, Positions: []Position{testPosition(1)}},
				{Bans: []Ban{longer}, Offences: []Offence{again}, Positions: []Position{moved}},
			},
			Update{Bans: []Ban{longer}, Offences: []Offence{again}, Positions: []Position{moved}},
		},
		{
			"removals come before values of the same update",
			[]Update{{
				Bans: []Ban{longer}, Unbans: []netip.Prefix{longer.Target},
				Offences: []Offence{again}, ForgetOffences: []OffenceKey{again.Key()},
				Positions: []Position{moved}, ForgetPositions: []PositionKey{moved.Key()},
			}},
			Update{Bans: []Ban{longer}, Offences: []Offence{again}, Positions: []Position{moved}},
		},
		{
			"removal",
			[]Update{
				{Bans: testBans(3), Offences: []Offence{testOffence(1), testOffence(2)}, Positions: []Position{testPosition(1), testPosition(2)}},
				{Unbans: []netip.Prefix{testBan(0).Target, testBan(2).Target}, ForgetOffences: []OffenceKey{again.Key()}, ForgetPositions: []PositionKey{moved.Key()}},
			},
			Update{Bans: []Ban{testBan(1)}, Offences: []Offence{testOffence(2)}, Positions: []Position{testPosition(2)}},
		},
		{
			"removal of what is not there",
			[]Update{{Unbans: []netip.Prefix{testBan(0).Target}, ForgetOffences: []OffenceKey{again.Key()}, ForgetPositions: []PositionKey{moved.Key()}}},
			Update{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := statePath(t)
			s, _ := mustOpen(t, path, noon)
			for _, u := range tt.updates {
				mustCommit(t, s, u)
			}
			mustClose(t, s)
			_, l := mustOpen(t, path, noon)
			sound(t, l)
			got := recordsOf(l)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestCommitIsAllOrNothing(t *testing.T) {
	bad := map[string]func(*Update){
		"ban without owner":  func(u *Update) { u.Bans = append(u.Bans, Ban{Target: testBan(8).Target}) },
		"ban without target": func(u *Update) { u.Bans = append(u.Bans, Ban{Owners: testBan(8).Owners}) },
		"ban not masked": func(u *Update) {
			b := testBan(8)
			b.Target = netip.PrefixFrom(b.Target.Addr(), 8)
			u.Bans = append(u.Bans, b)
		},
		"ban of IPv4 in IPv6": func(u *Update) {
			b := testBan(8)
			b.Target = netip.MustParsePrefix("::ffff:192.0.2.1/128")
			u.Bans = append(u.Bans, b)
		},
		"jail without name": func(u *Update) { b := testBan(8); b.Owners[0].Jail = ""; u.Bans = append(u.Bans, b) },
		"year 10000": func(u *Update) {
			b := testBan(8)
			b.Owners[0].Until = noon.AddDate(8000, 0, 0)
			u.Bans = append(u.Bans, b)
		},
		"unban of nothing":  func(u *Update) { u.Unbans = append(u.Unbans, netip.Prefix{}) },
		"offence with zero": func(u *Update) { o := testOffence(8); o.Jail = "a\x00b"; u.Offences = append(u.Offences, o) },
		"forget no jail":    func(u *Update) { u.ForgetOffences = append(u.ForgetOffences, OffenceKey{Target: testBan(8).Target}) },
		"log is not UTF-8":  func(u *Update) { p := testPosition(8); p.Log = "a\xff"; u.Positions = append(u.Positions, p) },
		"log name is too long": func(u *Update) {
			p := testPosition(8)
			p.Log = strings.Repeat("x", MaxName+1)
			u.Positions = append(u.Positions, p)
		},
		"pardon not masked": func(u *Update) {
			p := testPardon(8)
			p.Target = netip.PrefixFrom(testBan(9).Target.Addr(), 31)
			u.Pardons = append(u.Pardons, p)
		},
		"pardon of year 10000": func(u *Update) {
			p := testPardon(8)
			p.Before = noon.AddDate(8000, 0, 0)
			u.Pardons = append(u.Pardons, p)
		},
		"pardon not to be kept": func(u *Update) { p := testPardon(8); p.Keep = time.Time{}; u.Pardons = append(u.Pardons, p) },
		"forget no pardon":      func(u *Update) { u.ForgetPardons = append(u.ForgetPardons, PardonKey{Jail: "web"}) },
		"allowance without end": func(u *Update) { a := testAllowance(8); a.Until = time.Time{}; u.Allowances = append(u.Allowances, a) },
		"allowance of year 10000": func(u *Update) {
			a := testAllowance(8)
			a.Until = noon.AddDate(8000, 0, 0)
			u.Allowances = append(u.Allowances, a)
		},
		"allowance of nothing": func(u *Update) {
			a := testAllowance(8)
			a.Target = netip.Prefix{}
			u.Allowances = append(u.Allowances, a)
		},
		"forget no allowance":     func(u *Update) { u.ForgetAllowances = append(u.ForgetAllowances, netip.Prefix{}) },
		"hold without jail":       func(u *Update) { u.Holds = append(u.Holds, Hold{}) },
		"hold of year 10000":      func(u *Update) { h := testHold(8); h.Until = noon.AddDate(8000, 0, 0); u.Holds = append(u.Holds, h) },
		"resume no jail":          func(u *Update) { u.ForgetHolds = append(u.ForgetHolds, "") },
		"note without number":     func(u *Update) { u.Notes = append(u.Notes, Note{What: NoteFull}) },
		"note that says nothing":  func(u *Update) { u.Notes = append(u.Notes, Note{N: 9}) },
		"note of a nameless file": func(u *Update) { n := testNote(9); n.Reached[0].Log = ""; u.Notes = append(u.Notes, n) },
		"note of year 10000":      func(u *Update) { n := testNote(9); n.Until = noon.AddDate(8000, 0, 0); u.Notes = append(u.Notes, n) },
		"forget no note":          func(u *Update) { u.ForgetNotes = append(u.ForgetNotes, 0) },
		"forget unnamed source":   func(u *Update) { u.ForgetPositions = append(u.ForgetPositions, PositionKey{Dev: 1}) },
	}
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	mustCommit(t, s, Update{Bans: []Ban{testBan(1)}, Positions: []Position{testPosition(1)}})
	for name, spoil := range bad {
		moved := testPosition(1)
		moved.Offset = 12345
		u := Update{Bans: []Ban{testBan(2)}, Unbans: []netip.Prefix{testBan(1).Target}, Positions: []Position{moved}}
		spoil(&u)
		if err := s.Commit(u); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	mustClose(t, s)
	_, l := mustOpen(t, path, noon)
	sound(t, l)
	if want := []Ban{testBan(1)}; !reflect.DeepEqual(l.Bans, want) {
		t.Errorf("bans are %+v, want %+v", l.Bans, want)
	}
	if want := []Position{testPosition(1)}; !reflect.DeepEqual(l.Positions, want) {
		t.Errorf("positions are %+v, want %+v", l.Positions, want)
	}
}

func TestFailedCommitCanBeRepeated(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	mustCommit(t, s, Update{Bans: []Ban{testBan(1)}})
	mustClose(t, s)

	s, _ = mustOpen(t, path, noon)
	s.db.MaxSize = 1 << 15 // bbolt then fails as on a full disk
	many := Update{Bans: testBans(500), Positions: []Position{testPosition(1)}}
	if err := s.Commit(many); err == nil {
		t.Fatal("commit beyond the size allowed: no error")
	}
	mustCommit(t, s, Update{Bans: []Ban{testBan(2)}}) // what fits still works
	s.db.MaxSize = 0
	mustCommit(t, s, many)
	mustClose(t, s)
	_, l := mustOpen(t, path, noon)
	sound(t, l)
	if len(l.Bans) != 500 || len(l.Positions) != 1 {
		t.Errorf("%d bans and %d positions, want 500 and 1", len(l.Bans), len(l.Positions))
	}
}

func TestFileCutShortUnderneath(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	mustCommit(t, s, Update{Bans: testBans(200)})
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second must not wait for a lock the first left behind
		err := s.Commit(Update{Bans: []Ban{testBan(1)}})
		if err == nil || !strings.Contains(err.Error(), "restart") {
			t.Fatalf("Commit: %v, want an error that says what to do", err)
		}
	}
	mustClose(t, s)
	_, l := mustOpen(t, path, noon) // and the lock is free
	if len(l.Bans) != 0 {
		t.Errorf("%d bans from an empty file", len(l.Bans))
	}
}

func TestClosed(t *testing.T) {
	s, _ := mustOpen(t, statePath(t), noon)
	mustClose(t, s)
	if err := s.Commit(Update{Bans: []Ban{testBan(1)}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Commit: %v, want ErrClosed", err)
	}
	mustClose(t, s)
}
