package daemon

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

const aDay = 24 * time.Hour

// noon is a day's noon, so that hours more or less are the same day.
func noon(day int) time.Time {
	return time.Unix(20_000*24*60*60+12*60*60, 0).Add(time.Duration(day) * aDay)
}

func TestWhoIsRegular(t *testing.T) {
	for _, c := range []struct {
		name    string
		days    []int // on which it came; it is asked on day 20
		vouched bool
		want    bool
	}{
		{"never seen", nil, false, false},
		{"today only", []int{20}, false, false},
		{"two days and today", []int{18, 19, 20}, false, false},
		{"three days", []int{17, 18, 19}, false, true},
		{"three days and today", []int{17, 18, 19, 20}, false, true},
		{"three days apart", []int{6, 11, 19}, false, true},
		{"the oldest just remembered", []int{6, 7, 8}, false, true},
		{"the oldest forgotten", []int{5, 7, 8}, false, false},
		{"long ago", []int{1, 2, 3, 4, 5}, false, false},
		{"often on one day", []int{19, 19, 19, 19}, false, false},
		{"vouched for today", []int{20}, true, true},
		{"vouched for long ago", []int{5}, true, false},
	} {
		r := newRegulars()
		target := pfx("203.0.113.1/32")
		for i, day := range c.days {
			r.note(target, c.vouched, noon(day).Add(time.Duration(i)*time.Minute))
		}
		got, _ := r.forget(target)
		if got.is(noon(20)) != c.want {
			t.Errorf("%s: regular is %v, want %v", c.name, !c.want, c.want)
		}
	}
}

// The days are those of a plain list, however they come.
func TestRegularDays(t *testing.T) {
	for range 2000 {
		r, came := newRegulars(), map[int]bool{}
		target := pfx("2001:db8:1:2::/64")
		last := 0
		for day := range 40 {
			if rand.N(5) == 0 {
				r.note(target, false, noon(day))
				came[day], last = true, day
			}
		}
		today := last + rand.N(20)
		want := 0
		for day := range came {
			if day < today && day >= today-regularMemory {
				want++
			}
		}
		c, known := r.forget(target)
		if got := c.is(noon(today)); known && got != (want >= regularDays) {
			t.Fatalf("came on %v, today is %d: regular is %v", came, today, got)
		}
	}
}

// A crowd of newcomers pushes out nobody who comes again and again, and is gone
// the day after.
func TestNewcomersDontPushOut(t *testing.T) {
	r := newRegulars()
	r.cap = 1000
	regular := func(i int) netip.Prefix { return pfx(fmt.Sprintf("203.0.113.%d/32", i)) }
	for day := range 4 {
		for i := range 200 {
			r.note(regular(i), false, noon(day))
		}
	}
	crowd := func(day int) {
		for i := range 20_000 {
			r.note(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(day), byte(i >> 8), byte(i)}), 32), false, noon(day))
		}
	}
	crowd(4)
	if len(r.clients) != r.cap || r.dropped == 0 {
		t.Errorf("%d are remembered, %d were dropped", len(r.clients), r.dropped)
	}
	crowd(5)
	for i := range 200 {
		if c, known := r.forget(regular(i)); !known || !c.is(noon(5)) {
			t.Fatalf("regular %d is forgotten", i)
		}
	}
	today := 0
	for key := range r.clients {
		if key.target().Addr().As4()[1] == 5 {
			today++
		}
	}
	if today == 0 {
		t.Error("yesterday's crowd makes no room for today's")
	}
}

func TestRegularsSurviveRestart(t *testing.T) {
	r := newRegulars()
	for day := range 4 {
		r.note(pfx("203.0.113.1/32"), false, noon(day))
		r.note(pfx("2001:db8:1:2::/64"), day == 2, noon(day))
		r.note(pfx("2001:db8::1/128"), false, noon(day)) // not remembered
	}
	path := filepath.Join(t.TempDir(), "regulars")
	check(t, state.SaveRegulars(path, &state.Regulars{Clients: r.stored()}))
	s, err := state.LoadRegulars(path)
	check(t, err)
	back := newRegulars()
	back.load(s.Clients)
	if len(back.clients) != 2 || len(r.clients) != 2 {
		t.Fatalf("%d and %d clients, want 2", len(r.clients), len(back.clients))
	}
	for key, c := range r.clients {
		if back.clients[key] != c {
			t.Errorf("%v came back as %+v, was %+v", key.target(), back.clients[key], c)
		}
	}
}

func BenchmarkNoteRegular(b *testing.B) {
	r := newRegulars()
	targets := make([]netip.Prefix, 50_000)
	for i := range targets {
		targets[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
		r.note(targets[i], false, noon(0))
	}
	i := 0
	for b.Loop() {
		r.note(targets[i%len(targets)], false, noon(0).Add(time.Duration(i)*time.Millisecond))
		i++
	}
}

func BenchmarkMajority(b *testing.B) {
	m := (*majority)(nil).trusting(nil, time.Hour)
	addrs := make([]netip.Addr, 50_000)
	for i := range addrs {
		addrs[i] = netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)})
	}
	i := 0
	for b.Loop() {
		m.add(addrs[i%len(addrs)], noon(0))
		i++
	}
}
