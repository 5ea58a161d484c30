package daemon

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// What is looked up of pardons is what going through all of them would find, as
// they come and go, of any length and of both families.
func TestPardonsAreFoundAsByGoingThroughAll(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	begin := time.Now()
	at := func() time.Time { return begin.Add(time.Duration(rnd.IntN(100)) * time.Second) }
	prefix := func() netip.Prefix {
		if rnd.IntN(2) == 0 {
			a := netip.AddrFrom4([4]byte{192, 0, byte(rnd.IntN(2)), byte(rnd.IntN(16))})
			return netip.PrefixFrom(a, []int{0, 8, 23, 24, 28, 31, 32}[rnd.IntN(7)]).Masked()
		}
		a := netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 7: byte(rnd.IntN(4)), 15: byte(rnd.IntN(4))})
		return netip.PrefixFrom(a, []int{0, 32, 62, 64, 127, 128}[rnd.IntN(6)]).Masked()
	}
	jails := []string{"", "web", "other"}
	found := map[string]int{}
	for range 2000 {
		s := newPardons()
		for range rnd.IntN(6) {
			since := at()
			s.put(state.Pardon{Target: prefix(), Jail: jails[rnd.IntN(3)], Since: since, Before: since, Keep: at()})
		}
		if rnd.IntN(2) == 0 {
			for now := at(); ; {
				if _, ok := s.pop(now); !ok {
					break
				}
			}
		}
		target, o := prefix(), state.Owner{Jail: jails[1+rnd.IntN(2)], Since: at()}
		var covers, forgiven, overlaps bool
		inside := 0
		for _, p := range s.keys {
			overlaps = overlaps || p.Target.Overlaps(target)
			if p.Target.Overlaps(target) && p.Target.Bits() >= target.Bits() {
				inside++
			}
			if p.Target.Overlaps(target) && p.Target.Bits() <= target.Bits() {
				covers = true
				forgiven = forgiven || (p.Jail == "" || p.Jail == o.Jail) && o.Since.Before(p.Since)
			}
		}
		n := 0
		for p := range s.inside(target) {
			if s.keys[p.Key()] != p {
				t.Fatalf("found a pardon that is gone: %+v", p)
			}
			n++
		}
		if s.covers(target) != covers || s.forgiven(target, &o) != forgiven || s.in.OverlapsPrefix(target) != overlaps || n != inside {
			t.Fatalf("of %s, %s: covers %v, forgiven %v, overlaps %v, inside %d; want %v, %v, %v, %d", target, o.Jail,
				s.covers(target), s.forgiven(target, &o), s.in.OverlapsPrefix(target), n, covers, forgiven, overlaps, inside)
		}
		for what, yes := range map[string]bool{"covers": covers, "forgiven": forgiven, "overlaps": overlaps && !covers, "several inside": n > 1, "none": !overlaps} {
			if yes {
				found[what]++
			}
		}
	}
	t.Log(found)
	if len(found) < 5 {
		t.Errorf("found are only %v", found)
	}
}

// A start, or a state file that comes late: each ban is looked up in the pardons.
func BenchmarkBansWithPardons(b *testing.B) {
	at := func(i uint32) netip.Prefix {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 20<<24|i)
		return netip.PrefixFrom(netip.AddrFrom4(a), 32)
	}
	now := time.Now()
	e := &engine{pardons: newPardons()}
	for i := range uint32(10_000) {
		e.pardons.put(state.Pardon{Target: at(1_000_000 + i), Jail: "web", Since: now, Before: now, Keep: now.Add(time.Hour)})
	}
	var bans []state.Ban
	for i := range uint32(20_000) {
		bans = append(bans, held(at(i).String(), now, time.Hour, "web", "firewall"))
	}
	for b.Loop() {
		for i := range bans {
			if e.spareOwners(&bans[i]) {
				b.Fatal("a ban that nobody has lifted was")
			}
		}
	}
}
