package detector

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Bans of targets and of networks of any size, of several owners, that
// overlap, end and are lifted: an event is kept from counting if any of them
// that runs holds its client, and only then.
func TestNetworkBansEqualBruteForce(t *testing.T) {
	prefixes := pfx("203.0.113.5/32", "203.0.113.6/32", "203.0.113.4/31", "203.0.113.0/24", "203.0.0.0/16", "0.0.0.0/0",
		"2001:db8::/64", "2001:db8::1/128", "2001:db8::/65", "2001:db8::/63", "2001:db8::/32", "::/0", "64:ff9b::/96", "64:ff9b::/64")
	clients := []string{"203.0.113.5", "203.0.113.6", "203.0.114.1", "198.51.100.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db9::1", "64:ff9b::1.2.3.4"}
	type ban struct {
		target netip.Prefix
		jail   string
	}
	rapid.Check(t, func(t *rapid.T) {
		e := NewEngine(Options{Jails: []Jail{
			{Name: "a", Logs: []string{"l"}, Limit: 1000, Window: time.Minute, Ban: bans(time.Minute)},
			{Name: "w", Logs: []string{"l"}, Limit: 1000, Window: time.Minute, Ban: bans(time.Minute), Observe: true},
		}})
		l := nginxLog(t, e)
		brute := map[ban]int{}
		sec := 0
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			sec += rapid.IntRange(0, 3).Draw(t, "step")
			target := rapid.SampledFrom(prefixes).Draw(t, "target")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1:
				b := ban{target, rapid.SampledFrom([]string{"", "w"}).Draw(t, "owner")}
				until := sec + rapid.IntRange(1, 20).Draw(t, "for")
				e.Restore(unmasked(target), b.jail, b.jail == "", time.Unix(0, second(until)))
				brute[b] = max(brute[b], until)
			case 2:
				e.Unban(unmasked(target))
				delete(brute, ban{target, ""})
				delete(brute, ban{target, "w"})
			case 3:
				e.Forget(second(sec))
			}
			client := rapid.SampledFrom(clients).Draw(t, "client")
			by := map[string]bool{}
			for b, until := range brute {
				by[b.jail] = by[b.jail] || b.target.Contains(netip.MustParseAddr(client)) && sec < until
			}
			before := e.Fill(e.Target(netip.MustParseAddr(client)), second(sec))[1].Count
			v := e.Line(l, []byte(line(client, sec, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0)
			if want := map[bool]Step{true: StepBanned, false: StepCounted}[by[""]]; v.Step != want {
				t.Fatalf("%s at %d: %s, want %s; bans %v", client, sec, v.Step, want, brute)
			}
			counted := e.Fill(e.Target(netip.MustParseAddr(client)), second(sec))[1].Count > before
			if want := !by[""] && !by["w"]; counted != want {
				t.Fatalf("%s at %d: counted by the observing jail: %v, want %v; bans %v", client, sec, counted, want, brute)
			}
			networks := 0
			for bk := range e.bans.entries {
				if !isTarget(bk.prefix()) {
					networks++
				}
			}
			n := 0
			if e.networks != nil {
				for _, bans := range e.networks.All() {
					n += bans
				}
			}
			if n != networks || (e.networks == nil) != (n == 0) {
				t.Fatalf("%d bans of networks in the books, %d in truth", n, networks)
			}
		}
	})
}

// unmasked is the same network, written with its last address.
func unmasked(p netip.Prefix) netip.Prefix {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, p.Bits())
}

func TestKeyPrefix(t *testing.T) {
	for _, p := range pfx("203.0.113.5/32", "203.0.113.0/24", "0.0.0.0/0", "2001:db8::/64", "2001:db8::1/128", "::/0", "::/96", "64:ff9b::/96") {
		if got := keyOf(p).prefix(); got != p {
			t.Errorf("%s came back as %s", p, got)
		}
	}
}

func TestNetworkBanAllocatesNothing(t *testing.T) {
	e := NewEngine(Options{Jails: []Jail{{Name: "a", Logs: []string{"l"}, Limit: 1000, Window: time.Minute, Ban: bans(time.Minute)}}})
	l := nginxLog(t, e)
	for _, p := range []string{"203.0.0.0/16", "203.0.113.0/24", "2001:db8::/32"} {
		e.Restore(netip.MustParsePrefix(p), "", true, time.Unix(0, second(100)))
	}
	for _, client := range []string{"203.0.113.5", "2001:db8::5", "198.51.100.1"} {
		text := []byte(line(client, 0, "GET / HTTP/1.1", 200, "x", "-"))
		if n := testing.AllocsPerRun(100, func() { e.Line(l, text, false, Line{}, 0) }); n != 0 {
			t.Errorf("%s: %v allocations", client, n)
		}
	}
}
