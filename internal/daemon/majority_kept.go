package daemon

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/state"
)

// kept is what a snapshot holds of a majority, which goes with the windows: or
// else a proxy that is not banned would be when they go on after a restart.
func (m *majority) kept(log string) state.LogTraffic {
	t := state.LogTraffic{
		Log: log, Began: m.began.UTC(), Now: m.now.kept(), Before: m.before.kept(), Day: m.day, Today: m.today.kept(),
	}
	for _, a := range slices.SortedFunc(maps.Keys(m.grace), netip.Addr.Compare) {
		t.Graces = append(t.Graces, state.Grace{Addr: a, Until: m.grace[a].UTC()})
	}
	return t
}

// takeUp goes on from there.
func (m *majority) takeUp(t *state.LogTraffic) {
	m.began, m.day = t.Began, t.Day
	m.now.takeUp(&t.Now)
	m.before.takeUp(&t.Before)
	m.today.takeUp(&t.Today)
	for _, g := range t.Graces {
		m.grace[g.Addr] = g.Until
	}
}

func (t *tally) kept() (k state.Tally) {
	k.Lines = t.lines
	for i := range t.counters {
		if c := &t.counters[i]; c.n > 0 {
			k.Heavy = append(k.Heavy, state.Heavy{Addr: c.addr, N: c.n})
		}
	}
	k.Few, k.Edges = t.others.list(), t.edges.list()
	return k
}

func (t *tally) takeUp(k *state.Tally) {
	*t = tally{lines: k.Lines}
	for i, h := range k.Heavy[:min(len(k.Heavy), len(t.counters))] {
		t.counters[i] = heavy{h.Addr, h.N}
	}
	for _, a := range k.Few {
		t.others.add(a)
	}
	for _, a := range k.Edges {
		t.edges.add(a)
	}
}

func (f few) list() []netip.Addr { return slices.SortedFunc(maps.Keys(f), netip.Addr.Compare) }

// traffic is who stands for most of each log, as a snapshot holds it.
func (e *engine) traffic() (list []state.LogTraffic) {
	for _, name := range slices.Sorted(maps.Keys(e.logs)) {
		list = append(list, e.logs[name].majority.kept(name))
	}
	return list
}

// restoreTraffic goes on from a snapshot.
func (e *engine) restoreTraffic(list []state.LogTraffic, now time.Time) {
	for i := range list {
		if l := e.logs[list[i].Log]; l != nil && !list[i].Began.After(now) {
			l.majority.takeUp(&list[i])
		}
	}
}
