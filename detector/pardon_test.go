package detector

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Pardons of targets and networks that overlap, for one jail or all, that come
// and go between events in any order: each jail counts what no pardon holds
// for, and the step says so if that is why none did.
func TestPardonsEqualBruteForce(t *testing.T) {
	prefixes := pfx("203.0.113.5/32", "203.0.113.4/31", "203.0.0.0/16", "0.0.0.0/0", "2001:db8::/64", "2001:db8::1/128", "2001:db8::/32", "::/0")
	clients := []string{"203.0.113.5", "203.0.114.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}
	names := []string{"", "a", "b", DenyName}
	type pardon struct {
		target netip.Prefix
		jail   string
	}
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Jails: []Jail{
			{Name: "a", Logs: []string{"l"}, Limit: 1000, Window: time.Hour, Ban: bans(time.Minute)},
			{Name: "b", Logs: []string{"l"}, Limit: 1000, Window: time.Hour, Ban: bans(time.Minute), Where: Where{Match: Conditions{Status: []StatusRange{{404, 404}}}}},
		}, Deny: &Deny{Agents: []string{"sqlmap"}, Ban: bans(1)}}
		e := NewEngine(o)
		l := nginxLog(t, e)
		brute := map[pardon]int{}
		counts := map[string]int{}
		sec := 10000
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			sec += rapid.IntRange(0, 3).Draw(t, "step")
			p := pardon{rapid.SampledFrom(prefixes).Draw(t, "target"), rapid.SampledFrom(names).Draw(t, "jail")}
			switch rapid.IntRange(0, 12).Draw(t, "what") {
			case 0, 1:
				before := sec + rapid.IntRange(-20, 20).Draw(t, "before")
				if !e.Forgive(p.target, p.jail, second(before)) {
					t.Fatal("no room")
				}
				brute[p] = max(brute[p], before)
			case 2:
				e.Unforgive(p.target, p.jail)
				delete(brute, p)
			case 3:
				e.Use(Compile(o))
			}
			client := rapid.SampledFrom(clients).Draw(t, "client")
			at := sec - rapid.IntRange(0, 15).Draw(t, "late by")
			status := rapid.SampledFrom([]int{200, 404}).Draw(t, "status")
			agent := rapid.SampledFrom([]string{"x", "x", "sqlmap"}).Draw(t, "agent")
			forgiven := func(jail string) bool {
				for p, before := range brute {
					if (p.jail == "" || p.jail == jail) && p.target.Contains(netip.MustParseAddr(client)) && at <= before {
						return true
					}
				}
				return false
			}
			target := TargetOf(netip.MustParseAddr(client))
			want, asked, counted := "no jail", agent == "sqlmap", 0
			if agent == "sqlmap" && !forgiven(DenyName) {
				want = "denied"
			} else {
				for _, jail := range []string{"a", "b"} {
					if jail == "b" && status != 404 {
						continue
					}
					asked = true
					if !forgiven(jail) {
						counts[fmt.Sprint(jail, target)]++
						counted++
					}
				}
				if counted > 0 {
					want = "counted"
				} else if asked {
					want = "forgiven"
				}
			}
			v := e.Line(l, []byte(line(client, at, "GET / HTTP/1.1", status, agent, "-")), false, Line{}, 0)
			if v.Step.String() != want {
				t.Fatalf("%s at %d: %s, want %s; pardons %v", client, at, v.Step, want, brute)
			}
			e.Unban(target)
			for _, f := range e.Fill(target, second(sec)) {
				if want := counts[fmt.Sprint(f.Jail, target)]; f.Count != want {
					t.Fatalf("%s at %d: jail %s has counted %d, want %d; pardons %v", client, at, f.Jail, f.Count, want, brute)
				}
			}
			if n := len(brute); (e.pardons == nil) != (n == 0) || n > 0 && e.pardons.n != n {
				t.Fatalf("books of %v, want %d pardons", e.pardons, n)
			}
		}
	})
}

// A ban that is observed is a reason of its own not to count.
func TestForgivenAndObserved(t *testing.T) {
	w := trap(t, "x", time.Hour)
	w.Name, w.Observe = "w", true
	e := NewEngine(Options{Jails: []Jail{w, trap(t, "x", time.Hour)}})
	l := nginxLog(t, e)
	target := pfx("203.0.113.5/32")[0]
	for i, want := range []string{"counted", "already banned", "forgiven"} {
		e.Forgive(target, "x", second(9))
		if i == 2 {
			e.Forgive(target, "", second(9))
		}
		if v := e.Line(l, []byte(line("203.0.113.5", 0, "GET /x HTTP/1.1", 200, "-", "-")), false, Line{}, 0); v.Step.String() != want {
			t.Errorf("line %d: %s, want %s", i, v.Step, want)
		}
	}
}

func TestMaxPardons(t *testing.T) {
	e := NewEngine(Options{})
	at := func(i int) netip.Prefix { return single(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})) }
	for i := range MaxPardons {
		if !e.Forgive(at(i), "", 1) {
			t.Fatalf("pardon %d refused", i)
		}
	}
	if e.Forgive(at(MaxPardons), "", 1) || e.Forgive(at(0), "j", 1) || !e.Forgive(at(0), "", 2) {
		t.Error("one more than there may be was taken, or a change of one refused")
	}
	e.Unforgive(at(5), "")
	if !e.Forgive(at(MaxPardons), "", 1) {
		t.Error("no room after one had ended")
	}
}

// Clear forgets what is inside of a prefix, of a jail or of all, and nothing
// else.
func TestClearEqualsBruteForce(t *testing.T) {
	clients := []string{"203.0.113.5", "203.0.113.6", "203.0.114.1", "198.51.100.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db8:1::1", "2001:db8:1::2", "2001:db9::1"}
	prefixes := pfx("203.0.113.5/32", "203.0.113.4/30", "203.0.0.0/16", "0.0.0.0/0", "2001:db8::/64", "2001:db8:1::/64", "2001:db8:1::1/128", "2001:db8::/47", "::/0", "192.0.2.0/24")
	names := []string{"", "a", "w", DenyName, "gone", "never"}
	rapid.Check(t, func(t *rapid.T) {
		a, w := trap(t, "a", time.Hour), trap(t, "w", time.Hour)
		w.Observe = true
		o := Options{
			Jails: []Jail{a, w,
				{Name: "all", Logs: []string{"l"}, Limit: 5, Window: time.Hour, Ban: bans(time.Hour), Where: Where{Not: Conditions{Paths: paths(t, "/a", "/w")}}}},
			Deny: &Deny{Agents: []string{"sqlmap"}, Ban: bans(time.Hour), Observe: true},
		}
		if rapid.Bool().Draw(t, "shared /64") {
			o.Guard = fakeGuard{"2001:db8:1::/64": "shared"}
		}
		e := NewEngine(o)
		l := nginxLog(t, e)
		for range rapid.IntRange(0, 60).Draw(t, "lines") {
			client := rapid.SampledFrom(clients).Draw(t, "client")
			path := rapid.SampledFrom([]string{"/a", "/w", "/", "/"}).Draw(t, "path")
			agent := rapid.SampledFrom([]string{"x", "x", "sqlmap"}).Draw(t, "agent")
			e.Line(l, []byte(line(client, 0, "GET "+path+" HTTP/1.1", 200, agent, "-")), false, Line{}, 0)
			if rapid.IntRange(0, 9).Draw(t, "more?") == 0 {
				e.RestoreOffence("gone", e.Target(netip.MustParseAddr(client)), 1, time.Unix(0, second(0)))
				e.Restore(rapid.SampledFrom(prefixes).Draw(t, "ban"), "", true, time.Unix(0, second(100)))
			}
		}
		target, jail := rapid.SampledFrom(prefixes).Draw(t, "target"), rapid.SampledFrom(names).Draw(t, "jail")
		inside := func(k key) bool {
			p := k.prefix()
			return target.Bits() <= p.Bits() && target.Contains(p.Addr())
		}
		owners := map[int]string{enforced: "enforced", denyID: DenyName}
		rules := map[uint16]string{}
		for _, j := range e.jails {
			owners[j.id], rules[j.rule] = j.Name, j.Name
		}
		what := func() map[string]bool {
			all := map[string]bool{}
			for _, k := range e.windows.keys() {
				all[fmt.Sprint("window ", rules[k.rule], k.target().prefix())] = (jail == "" || jail == rules[k.rule]) && inside(k.target())
			}
			for k := range e.past.entries {
				all[fmt.Sprint("offence ", k.history, k.tried, k.prefix())] = (jail == "" || jail == k.history) && inside(k.key)
			}
			for k := range e.bans.entries {
				all[fmt.Sprint("ban ", owners[k.owner], k.prefix())] = (jail == "" || jail == owners[k.owner]) && inside(k.key)
			}
			return all
		}
		before := what()
		cleared := e.Clear(target, jail)
		after := what()
		want := 0
		for name, goes := range before {
			if _, there := after[name]; there == goes {
				t.Fatalf("Clear(%s, %q): %s there: %v, want %v", target, jail, name, there, !goes)
			}
			if goes && name[0] != 'b' {
				want++
			}
		}
		if cleared != want || len(after) > len(before) {
			t.Fatalf("Clear(%s, %q): %d cleared, want %d", target, jail, cleared, want)
		}
		e.windows.check(t)
	})
}

// Addresses that count for themselves are inside their /64, whichever kind of
// memory they are left in.
func TestClearOfASharedNetwork(t *testing.T) {
	network := pfx("2001:db8:1::/64")[0]
	for name, leave := range map[string]func(*Engine, *Log){
		"windows": func(e *Engine, l *Log) { visit(e, l, "2001:db8:1::5", 0, "/x") },
		"offences": func(e *Engine, l *Log) {
			e.RestoreOffence("a", pfx("2001:db8:1::5/128")[0], 1, time.Unix(0, second(0)))
		},
		"bans": func(e *Engine, l *Log) {
			e.Restore(pfx("2001:db8:1::5/128")[0], "", true, time.Unix(0, second(9)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEngine(everything(t))
			leave(e, nginxLog(t, e))
			if s := e.Stats(); s.Windows+s.Offences+s.Bans != 1 {
				t.Fatalf("%+v: the test shows nothing", s)
			}
			e.Clear(network, "")
			if s := e.Stats(); s.Windows+s.Offences+s.Bans != 0 {
				t.Errorf("left: %+v", s)
			}
		})
	}
}
