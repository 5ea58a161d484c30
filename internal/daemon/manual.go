package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
	"github.com/tailban/tailban/state"
)

const (
	defaultManualBan = time.Hour
	maxManualBan     = 366 * 24 * time.Hour

	// Wider than this needs force; much wider is never right.
	forceWider4, forceWider6 = 16, 32

	maxListed = 1000 // targets that an answer names
)

// order is a ban by hand, its text checked.
type order struct {
	target netip.Prefix
	length time.Duration // 0: as the jail says
	jail   string
	reason string
	by     string
	force  bool
}

// ban bans a target by hand.
func (e *engine) ban(o order, now time.Time) (*control.BanResult, error) {
	r := &control.BanResult{Target: o.target}
	owner := state.Owner{Jail: control.ByHand, Client: o.target.Addr(), Since: now, Event: now, Offence: 1, Reason: o.reason, By: o.by}
	length := defaultManualBan
	if o.jail == "" {
		owner.Actions = e.keepers()
	} else {
		x, ok := e.sentence(o.jail)
		if !ok {
			return nil, e.noJail(o.jail)
		}
		owner.Jail, length = o.jail, x.ladder[0]
		owner.Actions = slices.DeleteFunc(slices.Clone(x.actions), func(a string) bool { return e.reconciler[a] == nil })
	}
	if o.length != 0 {
		length = o.length
	}
	owner.Until = now.Add(length)
	if old := e.ownerOf(o.target, owner.Jail); old != nil {
		if !old.Until.Before(owner.Until) {
			r.Notes = append(r.Notes, "it was banned for longer already: unban it first to shorten that")
			owner.Until = old.Until
		}
		if old.Count > 0 { // what was found in the log is worth more
			asked := owner
			owner = *old
			owner.Until, owner.Reason, owner.By, owner.Actions = asked.Until, asked.Reason, asked.By, asked.Actions
		}
	}
	if !slices.ContainsFunc(owner.Actions, e.keepsAway) {
		return nil, &control.Error{Code: control.CodeRefused, Message: "no action is in use that could turn " + words.Target(o.target) + " away",
			Hint: "every jail only observes, or its actions only log"}
	}
	if err := e.mayBan(o); err != nil {
		return nil, err
	}
	inside, err := e.overlaps(o.target, owner.Until)
	if err != nil {
		return nil, err
	}
	e.endForgiveness(o.target, now)
	for _, target := range inside {
		e.lift(e.bans.take(target))
		r.Absorbed = append(r.Absorbed, target)
	}
	ban, full := e.bans.put(o.target, e.origin, owner)
	if full != nil {
		e.lift(full)
		e.sayFull(now)
	}
	if h := e.bans.bans[o.target]; h.Waiting { // not any longer
		e.admit(h)
	} else {
		h.queued = true
		e.enforce(ban)
	}
	e.touch(ban)
	e.tellDetector(ban)
	e.noteBan(ban)
	e.handOver()
	r.Until, r.Actions = ban.Until(""), owner.Actions
	if r.Until.After(owner.Until) && len(r.Notes) == 0 {
		r.Notes = append(r.Notes, "others want it banned for longer")
	}
	e.hub.publish(control.Event{Time: now, Kind: "ban", Target: o.target, Jail: owner.Jail, Until: owner.Until, Reason: o.reason, By: o.by})
	e.log.Info("banned by hand", "target", o.target.String(), "until", until(owner.Until), "jail", owner.Jail, "reason", o.reason, "by", o.by)
	return r, nil
}

// keepers are the actions in use that keep clients away.
func (e *engine) keepers() (names []string) {
	for name, keeps := range e.enforcing {
		if keeps {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ownerOf is a jail's hold on a ban, nil if it has none.
func (e *engine) ownerOf(target netip.Prefix, jail string) *state.Owner {
	if h := e.bans.bans[target]; h != nil {
		if i := h.owner(jail); i >= 0 {
			return &h.Owners[i]
		}
	}
	return nil
}

// sentence is what a jail, or [deny], does with whom it bans.
type sentence struct {
	ladder  []time.Duration
	actions []string
	observe bool
}

func (e *engine) sentence(jail string) (x sentence, ok bool) {
	if d := e.config.Deny; d != nil && jail == detector.DenyName {
		return sentence{d.Ban, d.Actions, d.Observe}, true
	}
	for i := range e.config.Jails {
		if j := &e.config.Jails[i]; j.Name == jail {
			return sentence{j.Ban, j.Actions, j.Observe}, true
		}
	}
	return sentence{}, false
}

// mayBan says why a target must not be banned.
func (e *engine) mayBan(o order) error {
	if reason, yes := e.guard.Protected(o.target); yes {
		err := &control.Error{Code: control.CodeRefused, Message: fmt.Sprintf("%s is never banned: %s", words.Target(o.target), reason)}
		if !o.target.IsSingleIP() {
			err.Hint = "ban the addresses or networks beside it"
		}
		return err
	}
	widest := forceWider4
	if o.target.Addr().Is6() {
		widest = forceWider6
	}
	if o.target.Bits() < widest && !o.force {
		return &control.Error{Code: control.CodeRefused, Message: fmt.Sprintf("%s is wider than /%d", o.target, widest), Hint: "--force bans it all the same"}
	}
	return nil
}

// overlaps lists banned networks inside a target, which become part of its
// ban. Networks must not overlap where they are enforced, so that one cannot
// be inside another and end later.
func (e *engine) overlaps(target netip.Prefix, end time.Time) (inside []netip.Prefix, err error) {
	if isHost(target) {
		return nil, nil
	}
	for other, h := range e.bans.bans {
		switch {
		case isHost(other) || other == target || !other.Overlaps(target):
		case other.Bits() < target.Bits():
			return nil, &control.Error{Code: control.CodeRefused, Message: fmt.Sprintf("%s is part of %s, which is banned until %s", target, other, until(h.end)),
				Hint: "ban that one for longer, or unban it first"}
		case h.end.After(end):
			return nil, &control.Error{Code: control.CodeRefused, Message: fmt.Sprintf("%s inside it is banned for longer, until %s", other, until(h.end)),
				Hint: "ban for longer, or unban that one first"}
		default:
			inside = append(inside, other)
		}
	}
	return inside, nil
}

// isHost reports whether a target is what a single client is banned as.
func isHost(p netip.Prefix) bool {
	return p.IsSingleIP() || p.Addr().Is6() && p.Bits() == 64
}

// release is an unban, its text checked.
type release struct {
	target  netip.Prefix // invalid: all
	jail    string       // "": all owners
	forgive time.Duration
	reason  string
	by      string
}

// unban lifts bans, forgets what led to them, and has events up to now not
// count any more, whenever they are read.
func (e *engine) unban(r release, now time.Time) (*control.UnbanResult, error) {
	if r.jail != "" {
		if err := e.checkOwner(r.jail); err != nil {
			return nil, err
		}
	}
	out := &control.UnbanResult{Targets: []netip.Prefix{}}
	var lifted time.Time // the latest end of what is lifted
	for _, h := range e.picked(r) {
		lifted = later(lifted, h.end)
		if r.jail != "" && len(h.Owners) > 1 {
			e.disown(h, r.jail)
			e.hub.publish(control.Event{Time: now, Kind: "unban", Target: h.Target, Jail: r.jail, Until: h.end, Reason: r.reason, By: r.by})
			out.Kept++
			continue
		}
		e.lift(e.bans.take(h.Target))
		out.Lifted++
		if len(out.Targets) < maxListed {
			out.Targets = append(out.Targets, h.Target)
		}
		e.hub.publish(control.Event{Time: now, Kind: "unban", Target: h.Target, Jail: r.jail, Reason: r.reason, By: r.by})
	}
	if r.target.IsValid() {
		for target, h := range e.bans.bans {
			if target.Bits() < r.target.Bits() && target.Overlaps(r.target) {
				out.Notes = append(out.Notes, fmt.Sprintf("%s is still banned as part of %s, until %s", words.Target(r.target), target, until(h.end)))
			}
		}
	}
	if d := e.config.Deny; d != nil && r.target.IsValid() && (r.jail == "" || r.jail == detector.DenyName) {
		if i := slices.IndexFunc(d.From, func(p netip.Prefix) bool { return p.Overlaps(r.target) }); i >= 0 {
			out.Notes = append(out.Notes, fmt.Sprintf("%s is denied by the configuration (from %s): what it sends from now on bans it again", words.Target(r.target), d.From[i]))
		}
	}
	before := now.Add(r.forgive)
	for _, target := range r.targets() {
		out.Cleared += e.clear(target, r.jail)
		if e.bans.bans[target] == nil && e.spareInNetworks(target, before) {
			out.Notes = append(out.Notes, "it was turned away as part of a network that was banned as one: whoever is banned there is so one by one now")
		}
		e.forgive(state.Pardon{Target: target, Jail: r.jail, Since: now, Before: before, Keep: e.keepPardon(before, lifted, now), Reason: r.reason, By: r.by}, now)
	}
	e.handOver()
	e.log.Info("unbanned by hand", "target", r.String(), "jail", r.jail, "lifted", out.Lifted, "kept", out.Kept,
		"forgiven_until", until(before), "reason", r.reason, "by", r.by)
	return out, nil
}

func (r *release) String() string {
	if r.target.IsValid() {
		return r.target.String()
	}
	return "all"
}

// targets are the networks that an unban is about.
func (r *release) targets() []netip.Prefix {
	if r.target.IsValid() {
		return []netip.Prefix{r.target}
	}
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// picked lists the bans that an unban is about.
func (e *engine) picked(r release) []*heldBan {
	var out []*heldBan
	for target, h := range e.bans.bans {
		if r.target.IsValid() && (target.Bits() < r.target.Bits() || !target.Overlaps(r.target)) {
			continue
		}
		if r.jail != "" && !slices.ContainsFunc(h.Owners, func(o state.Owner) bool { return o.Jail == r.jail }) {
			continue
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *heldBan) int { return a.Target.Compare(b.Target) })
	return out
}

// owns reports whether any ban has an owner of that name: a jail that is gone.
func (e *engine) owns(jail string) bool {
	return len(e.picked(release{jail: jail})) > 0
}

// disown takes a jail's hold off a ban that others still want.
func (e *engine) disown(h *heldBan, jail string) {
	before := h.Ban.Clone()
	h.Owners = slices.DeleteFunc(slices.Clone(h.Owners), func(o state.Owner) bool { return o.Jail == jail })
	e.bans.moved(h)
	e.touch(&h.Ban)
	e.retell(&h.Ban)
	for name, r := range e.reconciler {
		was, is := before.Until(name), h.Until(name)
		switch {
		case is.IsZero() && !was.IsZero():
			r.Delete(h.Target)
		case !is.Equal(was):
			r.Set(h.Target, is)
		}
	}
}

// clear forgets counters and offences. An offence in a history that jails
// share is not one jail's to forget.
func (e *engine) clear(target netip.Prefix, jail string) int {
	n := e.detect.Clear(target, jail)
	if jail == "" || !e.config.SharedHistory {
		e.update.ForgetOffences = append(e.update.ForgetOffences, e.offences.drop(target, jail)...)
	}
	return n
}
