package daemon

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/internal/resolve"
	"github.com/tailban/tailban/state"
)

// setAllowTimeout is how long an action may take to hear who is allowed.
const setAllowTimeout = 10 * time.Second

// allowList is who is allowed: by the configuration, by host names in it, and
// by hand for a while.
type allowList struct {
	changed *swap[allowed] // for the engine

	mu      sync.Mutex
	version uint64
	config  []netip.Prefix
	hosts   []resolve.Host
	byHand  []state.Allowance
}

// allowed is everybody who is allowed. Of two the one with the higher version
// is the later.
type allowed struct {
	version uint64
	list    []netip.Prefix
}

func newAllowList(config []netip.Prefix) *allowList {
	return &allowList{changed: newSwap[allowed](), config: config}
}

// all lists everybody.
func (l *allowList) all() []netip.Prefix {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list()
}

func (l *allowList) list() []netip.Prefix {
	out := slices.Clone(l.config)
	for _, e := range hostEntries(l.hosts) {
		out = append(out, e.Prefix)
	}
	for i := range l.byHand {
		out = append(out, l.byHand[i].Target)
	}
	return out
}

// allowed reports what names an address, if it is allowed.
func (l *allowList) allowed(a netip.Addr) (by string, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.byHand {
		if w := &l.byHand[i]; w.Target.Contains(a) {
			return allowedByHand(w), true
		}
	}
	for _, p := range l.config {
		if p.Contains(a) {
			return "allow in the configuration: " + p.String(), true
		}
	}
	for _, h := range l.hosts {
		if slices.Contains(h.Addresses, a) {
			return "allow in the configuration: " + h.Name, true
		}
	}
	return "", false
}

// allowedByHand says so.
func allowedByHand(a *state.Allowance) string {
	return "allowed by hand until " + a.Until.UTC().Format(time.RFC3339)
}

// hostEntries lists the addresses of host names for the guard.
func hostEntries(hosts []resolve.Host) []guard.Entry {
	var out []guard.Entry
	for _, h := range hosts {
		for _, a := range h.Addresses {
			out = append(out, guard.Entry{Prefix: netip.PrefixFrom(a, a.BitLen()), Reason: "allowed: " + h.Name})
		}
	}
	return out
}

func byHandEntries(list []state.Allowance) []guard.Entry {
	var out []guard.Entry
	for i := range list {
		out = append(out, guard.Entry{Prefix: list[i].Target, Reason: allowedByHand(&list[i])})
	}
	return out
}

// setAllowed changes who is allowed, and tells everybody: first the guard, so
// that whoever is allowed is not banned from here on, whatever the others
// still know; then the engine and the actions, by their channels. It waits for
// nothing.
func (d *daemon) setAllowed(change func(*allowList)) allowed {
	l := d.allow
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
	l.version++
	d.guard.UpdateNames(hostEntries(l.hosts))
	d.guard.UpdateAllowances(byHandEntries(l.byHand))
	allow := allowed{l.version, l.list()}
	l.changed.put(allow)
	for _, e := range d.enforcers() {
		if e.allow != nil {
			e.allow.put(allow.list)
		}
	}
	return allow
}

// allower is an action that lets some pass whatever is banned.
type allower interface {
	SetAllow(ctx context.Context, allow []netip.Prefix) error
}

var (
	_ allower = (*actions.Nftables)(nil)
	_ allower = (*actions.Iptables)(nil)
)

// tellAction tells an action who is allowed, whenever that changes.
func (d *daemon) tellAction(ctx context.Context, e *enforcer, a allower) {
	for {
		select {
		case <-ctx.Done():
			return
		case list := <-e.allow.latest:
			d.tellOnce(ctx, e.name, a, list)
		}
	}
}

func (d *daemon) tellOnce(ctx context.Context, name string, a allower, list []netip.Prefix) {
	ctx, cancel := context.WithTimeout(ctx, setAllowTimeout)
	defer cancel()
	if err := a.SetAllow(ctx, list); err != nil {
		d.Log.Warn("who is allowed reaches this action with its next reconciliation", "action", name, "err", err)
	}
}

// loadAllowances takes up those of an earlier daemon, before anybody is told.
func (d *daemon) loadAllowances(list []state.Allowance) {
	d.allow.byHand = allowancesByClock(list, time.Now())
	d.guard.UpdateAllowances(byHandEntries(d.allow.byHand))
}

// allowancesByClock are allowances as the clock that runs now has them.
func allowancesByClock(list []state.Allowance, now time.Time) []state.Allowance {
	list = slices.Clone(list)
	for i := range list {
		list[i].Since, list[i].Until = byClock(list[i].Since, now), byClock(list[i].Until, now)
	}
	return list
}

// shiftAllowances has them last as long as before, when the clock was set. They are
// put to be stored before anybody else can end one of them.
func (d *daemon) shiftAllowances(now time.Time, put func(state.Update)) {
	l := d.allow
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.byHand) == 0 {
		return
	}
	l.byHand = allowancesByClock(l.byHand, now)
	d.guard.UpdateAllowances(byHandEntries(l.byHand))
	put(state.Update{Allowances: slices.Clone(l.byHand)})
}

// allowLate adds those of a state file that could not be opened at the start.
// It doesn't wait: actions are told.
func (d *daemon) allowLate(list []state.Allowance) {
	if len(list) == 0 {
		return
	}
	list = allowancesByClock(list, time.Now())
	startPart(d.serving, func(context.Context) {
		d.setAllowed(func(l *allowList) {
			for _, a := range list {
				if !slices.ContainsFunc(l.byHand, func(b state.Allowance) bool { return b.Target == a.Target }) {
					l.byHand = append(l.byHand, a)
				}
			}
		})
	})
}

// startAllowances ends what was allowed by hand at its time.
func (d *daemon) startAllowances() *part {
	return startPart(d.serving, func(ctx context.Context) {
		tick := time.NewTicker(upkeep)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				d.endAllowances(now)
			}
		}
	})
}

// endAllowances lets go of those whose time is up.
func (d *daemon) endAllowances(now time.Time) {
	over := func(a state.Allowance) bool { return !a.Until.After(now) }
	d.allow.mu.Lock()
	i := slices.IndexFunc(d.allow.byHand, over)
	d.allow.mu.Unlock()
	if i < 0 {
		return
	}
	var ended []state.Allowance
	d.setAllowed(func(l *allowList) {
		l.byHand = slices.DeleteFunc(l.byHand, func(a state.Allowance) bool {
			if over(a) {
				ended = append(ended, a)
				return true
			}
			return false
		})
	})
	var u state.Update
	for _, a := range ended {
		u.ForgetAllowances = append(u.ForgetAllowances, a.Target)
		d.Log.Info("no longer allowed: the time is up", "target", a.Target.String())
		d.hub.publish(control.Event{Time: now, Kind: "allow-end", Target: a.Target})
	}
	d.writer.Put(u)
}

// setAllow makes the engine know who is allowed now. Those who change that may
// come here in another order: an older list takes the place of none. Whoever is
// banned and must not be is let go.
func (e *engine) setAllow(a allowed, now time.Time) {
	if a.version >= e.allowed.version {
		e.noteAllowed(e.allowed.list, a.list)
		e.allowed = a
	}
	e.detect.SetAllow(e.allowed.list)
	e.liftProtected(now)
}
