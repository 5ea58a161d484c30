package lists

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func day0(n int) time.Time { return time.Date(2026, 11, 1+n, 12, 0, 0, 0, time.UTC) }

// builtIn is a provider of the tests' own.
func builtIn(date string, ranges ...netip.Prefix) *Provider {
	return &Provider{Name: "googlebot", Date: date, Prefixes: ranges}
}

// fetch notes ranges as fetched.
func (s *Stored) fetch(b *Provider, strict bool, at time.Time, ranges ...netip.Prefix) {
	s.Latest, s.Checked = []Fetched{{URL: "https://x.example/", Ranges: ranges}}, at
	s.Settle(b, strict, at)
}

func TestSettle(t *testing.T) {
	built := builtIn("2026-10-09", single(10)...)
	for _, tt := range []struct {
		name    string
		ranges  []netip.Prefix
		strict  bool
		used    int
		waiting string
		added   int // that may be spared
	}{
		{"the same", single(10), false, 10, "", 0},
		{"more", single(12), false, 12, "", 0},
		{"fewer", single(8), false, 8, "", 0},
		{"far more", single(16), false, 10, "6 ranges are new, of 10: more than half", 0},
		{"far fewer", single(4), false, 10, "6 ranges are gone, of 10: more than half", 0},
		{"the same proxies", single(10), true, 10, "", 0},
		{"fewer proxies", single(8), true, 8, "", 0},
		{"one proxy more", single(11), true, 10, "it adds to whom trusted_proxies believes", 1},
		{"far more proxies", single(16), true, 10, "6 ranges are new, of 10: more than half", 0},
	} {
		s := &Stored{Name: "googlebot"}
		s.fetch(built, tt.strict, day0(0), tt.ranges...)
		p, why := s.InUse(built, tt.strict), ""
		if s.Waiting != nil {
			why = s.Waiting.Why
		}
		if len(p.Prefixes) != tt.used || why != tt.waiting || p.Fetched != (why == "") {
			t.Errorf("%s: %d in use, fetched %v, %q", tt.name, len(p.Prefixes), p.Fetched, why)
		}
		if want := map[bool]string{true: "2026-11-01", false: built.Date}[p.Fetched]; p.Date != want {
			t.Errorf("%s: of %s, want %s", tt.name, p.Date, want)
		}
		if n := len(s.Added(built, p)); n != tt.added {
			t.Errorf("%s: %d are spared, want %d", tt.name, n, tt.added)
		}
	}
}

// Many small steps lead no further than a large one, until somebody accepts one.
func TestSmallStepsAddUp(t *testing.T) {
	built := builtIn("2026-10-09", single(10)...)
	s := &Stored{Name: "googlebot"}
	for n := 11; n <= 40; n++ {
		s.fetch(built, false, day0(n-11), single(n)...)
		if got := len(s.InUse(built, false).Prefixes); got != min(n, 15) {
			t.Fatalf("of %d ranges %d are in use", n, got)
		}
	}
	if s.Waiting == nil || s.Waiting.Since != day0(29) {
		t.Fatalf("waiting: %+v", s.Waiting)
	}
	s.Accept(day0(30))
	if p := s.InUse(built, false); len(p.Prefixes) != 40 || p.Date != Day(day0(29)) || s.Waiting != nil {
		t.Errorf("accepted: %d of %s, %+v", len(p.Prefixes), p.Date, s.Waiting)
	}
	for n := 41; n <= 70; n++ {
		s.fetch(built, false, day0(n), single(n)...)
		if got := len(s.InUse(built, false).Prefixes); got != min(n, 60) {
			t.Fatalf("after that, of %d ranges %d are in use", n, got)
		}
	}
	s.fetch(built, false, day0(90), single(50)...)
	if got := len(s.InUse(built, false).Prefixes); got != 50 || s.Waiting != nil {
		t.Errorf("when it is what it was, %d are in use, waiting: %+v", got, s.Waiting)
	}
}

// What waits keeps since when, as long as it is the same.
func TestWaitingSince(t *testing.T) {
	built := builtIn("2026-10-09", single(10)...)
	s := &Stored{Name: "googlebot"}
	s.fetch(built, false, day0(0), single(30)...)
	first := *s.Waiting
	s.fetch(built, false, day0(1), single(30)...)
	if *s.Waiting != first || first.Since != day0(0) {
		t.Errorf("the same waits as %+v, want %+v", *s.Waiting, first)
	}
	s.fetch(built, false, day0(2), single(31)...)
	if s.Waiting.ID == first.ID || s.Waiting.Since != day0(2) {
		t.Errorf("others wait as %+v", *s.Waiting)
	}
}

// Built-in ranges that are newer win over what is stored, whatever it is; so does
// what was accepted before them count for nothing.
func TestNewerBuiltInWins(t *testing.T) {
	old, newer := builtIn("2026-10-09", single(10)...), builtIn("2026-11-20", single(20)...)
	fetched, waiting, accepted := &Stored{}, &Stored{}, &Stored{}
	fetched.fetch(old, false, day0(0), single(12)...)
	waiting.fetch(old, false, day0(0), single(30)...)
	accepted.fetch(old, false, day0(0), single(30)...)
	accepted.Accept(day0(0))
	for name, s := range map[string]*Stored{"fetched": fetched, "waiting": waiting, "accepted": accepted} {
		s.Settle(newer, false, day0(25))
		if p := s.InUse(newer, false); len(p.Prefixes) != 20 || p.Fetched || p.Date != newer.Date || s.Waiting != nil || s.Latest != nil {
			t.Errorf("%s: %d of %s, %+v", name, len(p.Prefixes), p.Date, s)
		}
		s.fetch(newer, false, day0(26), single(22)...)
		if p := s.InUse(newer, false); len(p.Prefixes) != 22 || p.Date != "2026-11-27" {
			t.Errorf("%s, then fetched anew: %d of %s", name, len(p.Prefixes), p.Date)
		}
	}
	// An older program compares with what it knows itself.
	if p := fetched.InUse(old, false); p.Fetched || len(p.Prefixes) != 10 {
		t.Errorf("an older program: %+v", p)
	}
}

// A list that comes to be in trusted_proxies, or a file that somebody has changed,
// gives no more than what may be used unasked.
func TestInUseIsJudgedAgain(t *testing.T) {
	built := builtIn("2026-10-09", single(10)...)
	s := &Stored{}
	s.fetch(built, false, day0(0), single(12)...)
	if p := s.InUse(built, true); len(p.Prefixes) != 10 || p.Fetched {
		t.Errorf("as proxies, %d are in use", len(p.Prefixes))
	}
	s.Used = prefixes("90.0.0.0/9")
	if p := s.InUse(built, false); len(p.Prefixes) != 10 || p.Fetched {
		t.Errorf("changed in the file, %v are in use", p.Prefixes)
	}
	s.fetch(built, false, day0(0), single(30)...)
	s.Accept(day0(1))
	s.Used = prefixes("90.0.0.0/9")
	if p := s.InUse(built, false); len(p.Prefixes) != 30 || p.Date != "2026-11-02" || !p.Fetched {
		t.Errorf("beside what was accepted, %v are in use", p.Prefixes)
	}
}

func TestStoredAndLoaded(t *testing.T) {
	dir := t.TempDir()
	if s, err := Load(dir, "googlebot"); s != nil || err != nil {
		t.Errorf("nothing is stored, and that is %+v, %v", s, err)
	}
	built, _ := Lookup("googlebot")
	s := &Stored{
		Name: "googlebot", Next: day0(9),
		Accepted: built.Prefixes, AcceptedOn: "2026-11-01", Failing: &Failing{"x", day0(3), 2},
		Latest: []Fetched{{"https://x.example/", `"tag"`, "Mon, 02 Nov 2026 00:00:00 GMT", prefixes("20.0.0.0/24", "2400::/32")}},
	}
	s.Checked = day0(2)
	s.Settle(built, false, day0(2))
	if s.Waiting == nil {
		t.Fatal("nothing waits")
	}
	s.Used, s.Date = built.Prefixes[1:], "2026-11-02"
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir, "googlebot")
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("read again: %+v, %v\nwant %+v", got, err, s)
	}
	info, err := os.Stat(filepath.Join(dir, Dir, "googlebot.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A file that is damaged, or changed, or not ours alone to change, is told and not
// used.
func TestDamaged(t *testing.T) {
	built, _ := Lookup("googlebot")
	good := &Stored{Name: "googlebot", Used: built.Prefixes, Date: "2026-11-02"}
	whole, err := encode(good)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(change func(*Stored)) []byte {
		s := *good
		change(&s)
		text, err := encode(&s)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, tt := range []struct {
		name string
		text []byte
		mode os.FileMode
		want string
	}{
		{"good", whole, 0o600, ""},
		{"readable", whole, 0o644, ""},
		{"empty", nil, 0o600, "it is damaged"},
		{"cut off", whole[:len(whole)-9], 0o600, "it is damaged"},
		{"a byte", slices.Replace(slices.Clone(whole), 200, 201, '7'), 0o600, "it is damaged"},
		{"more", append(slices.Clone(whole), ' '), 0o600, "it is damaged"},
		{"writable", whole, 0o666, "others can write to"},
		{"writable by the group", whole, 0o620, "others can write to"},
		{"everything", signed(func(s *Stored) { s.Used = prefixes("0.0.0.0/0") }), 0o600, "0.0.0.0/0 is every address there is"},
		{"private", signed(func(s *Stored) { s.Latest = []Fetched{{Ranges: prefixes("10.0.0.0/8")}} }), 0o600, "nobody's on the Internet"},
		{"accepted and wide", signed(func(s *Stored) { s.Accepted, s.AcceptedOn = prefixes("2.0.0.0/7"), "2026-11-02" }), 0o600, "is too wide"},
		{"no day", signed(func(s *Stored) { s.Date = "" }), 0o600, "ranges without a day"},
		{"a strange day", signed(func(s *Stored) { s.Date = "soon" }), 0o600, `"soon" is no day`},
		{"another's", signed(func(s *Stored) { s.Name = "bingbot" }), 0o600, `it is of "bingbot"`},
		{"not JSON", append(firstLine([]byte("{")), '{'), 0o600, "unexpected end of JSON"},
		{"no range", append(firstLine([]byte(`{"used":[""]}`)), `{"used":[""]}`...), 0o600, "is no range"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, Dir, "googlebot.json")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, tt.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		s, err := Load(dir, "googlebot")
		if tt.want == "" {
			if err != nil || s == nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err == nil || s != nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q with the path", tt.name, err, tt.want)
		}
		if p := s.InUse(built, false); p.Fetched || !slices.Equal(p.Prefixes, built.Prefixes) {
			t.Errorf("%s: %+v is used", tt.name, p)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, Dir, "googlebot.json")
	if err := os.WriteFile(filepath.Join(dir, "elsewhere"), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../elsewhere", link); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(dir, "googlebot"); err == nil || s != nil {
		t.Errorf("a link: %+v, %v", s, err)
	}
}

// Whatever a file holds, with its sum right or not: nothing comes out of it that a
// publisher could not have sent, and what does is written and read again as it was.
func FuzzDecode(f *testing.F) {
	s := &Stored{Name: "googlebot", Used: prefixes("20.0.0.0/24"), Date: "2026-11-02", Waiting: &Waiting{"1", "x", day0(1)}}
	text, err := encode(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"name":"x","used":["0.0.0.0/0"],"date":"2026-11-02"}`))
	f.Add([]byte(`{"latest":[{"ranges":["::ffff:1.2.3.4/120",""]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, data := range [][]byte{text, append(firstLine(text), text...)} {
			s, err := decode(data)
			if err != nil {
				continue
			}
			all := slices.Concat(s.Used, s.Accepted)
			for _, l := range s.Latest {
				all = append(all, l.Ranges...)
			}
			for _, p := range all {
				if Published(p) != nil {
					t.Fatalf("%v was taken", p)
				}
			}
			s.Fresh() // must not panic
			built := builtIn("2026-10-09", single(10)...)
			s.Settle(built, true, day0(1))
			if used := s.InUse(built, true); len(Compare(slices.Concat(built.Prefixes, s.Accepted), used.Prefixes).Added) > 0 {
				t.Fatalf("%v is trusted", used.Prefixes)
			}
			again, err := encode(s)
			if err != nil {
				if _, bad := json.Marshal(s.Checked); bad != nil {
					continue // years beyond 9999
				}
				t.Fatal(err)
			}
			if back, err := decode(again); err != nil || fmt.Sprint(back.Used, back.Latest) != fmt.Sprint(s.Used, s.Latest) {
				t.Fatalf("%+v, %v, want %+v", back, err, s)
			}
		}
	})
}
