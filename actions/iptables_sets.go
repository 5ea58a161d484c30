//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// allowSize is how many networks of one family can be let pass.
const allowSize = 65536

// setNew is the set that takes the place of one which is not as it should be,
// for as long as that takes.
const setNew = "new"

// ipsetNames are the ends of our sets' names, by those of the sets in nftables.
func ipsetName(opt IptablesOptions, set string) string {
	switch set {
	case setBan4:
		return opt.Prefix + "4"
	case setBan6:
		return opt.Prefix + "6"
	case setHost6:
		return opt.Prefix + "6-host"
	case setNet4:
		return opt.Prefix + "4-net"
	case setNet6:
		return opt.Prefix + "6-net"
	case setAllow4:
		return opt.Prefix + "4-allow"
	case setAllow6:
		return opt.Prefix + "6-allow"
	}
	return opt.Prefix + "-" + set
}

// banIPSets are the sets of bans, by the names of those in nftables.
//
// An IPv6 /64 is kept in a hash:ip that cuts addresses to 64 bits, not in a
// hash:net: a packet is looked up once, whatever else is banned, members are
// of one length whoever adds them, and every kernel with IP sets has it.
func banIPSets(opt IptablesOptions) map[string]*ipset {
	set := func(name, kind string, family, netmask uint8) *ipset {
		return &ipset{ipsetName(opt, name), kind, family, netmask, uint32(opt.Size), true}
	}
	return map[string]*ipset{
		setBan4:  set(setBan4, hashIP, unix.NFPROTO_IPV4, 0),
		setBan6:  set(setBan6, hashIP, unix.NFPROTO_IPV6, 64),
		setHost6: set(setHost6, hashIP, unix.NFPROTO_IPV6, 0),
		setNet4:  set(setNet4, hashNet, unix.NFPROTO_IPV4, 0),
		setNet6:  set(setNet6, hashNet, unix.NFPROTO_IPV6, 0),
	}
}

func allowIPSets(opt IptablesOptions) map[string]*ipset {
	set := func(name string, family uint8) *ipset {
		return &ipset{ipsetName(opt, name), hashNet, family, 0, allowSize, false}
	}
	return map[string]*ipset{
		setAllow4: set(setAllow4, unix.NFPROTO_IPV4),
		setAllow6: set(setAllow6, unix.NFPROTO_IPV6),
	}
}

// Our sets, in the order in which they are worked on.
var (
	banOrder   = []string{setBan4, setBan6, setHost6, setNet4, setNet6}
	allowOrder = []string{setAllow4, setAllow6}
)

// ipsetFor returns the set that a target belongs into, "" for none. The address
// of only zeros has no place in a hash:ip.
func ipsetFor(target netip.Prefix) string {
	set := setFor(target)
	if target.Addr().IsUnspecified() {
		switch set {
		case setBan4:
			return setNet4
		case setBan6, setHost6:
			return setNet6
		}
	}
	return set
}

// prepareSets makes what is missing, and makes anew what is something else.
func (t *Iptables) prepareSets(ctx context.Context, fix *mending) error {
	bans, allow := banIPSets(t.opt), allowIPSets(t.opt)
	for _, name := range banOrder {
		if err := t.prepareSet(ctx, bans[name], fix); err != nil {
			return err
		}
	}
	for _, name := range allowOrder {
		if err := t.prepareSet(ctx, allow[name], fix); err != nil {
			return err
		}
	}
	changed, err := t.prepareAllow(ctx)
	fix.found = append(fix.found, changed...)
	return err
}

func (t *Iptables) prepareSet(ctx context.Context, want *ipset, fix *mending) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	have, err := t.sets.header(want.name)
	switch {
	case err != nil:
		return explainSet("look for", want.name, err)
	case have == nil:
		fix.found = append(fix.found, "no set "+want.name)
		return explainSet("make", want.name, t.sets.create(want))
	case *have == *want:
		return nil
	}
	fix.found = append(fix.found, "set "+want.name+" is of another type or size")
	return t.replaceSet(ctx, want, have)
}

// replaceSet puts another set in the place of one, with the members that were
// in it. Where a set may not change its type, our rules, which look into it, go
// first; they are made again after that.
func (t *Iptables) replaceSet(ctx context.Context, want, have *ipset) error {
	fresh := *want
	fresh.name = ipsetName(t.opt, setNew)
	if _, err := t.sets.destroy(fresh.name); err != nil { // of an earlier process that has died
		return explainSet("remove", fresh.name, err)
	}
	if err := t.sets.create(&fresh); err != nil {
		return explainSet("make", fresh.name, err)
	}
	if have.kind == want.kind && have.family == want.family && have.netmask == want.netmask && want.bans {
		if err := t.copyMembers(ctx, have, &fresh); err != nil {
			return err
		}
	}
	err := t.sets.swap(fresh.name, want.name)
	if errors.Is(err, errSetMismatch) {
		if err := t.removeRules(ctx); err != nil {
			return err
		}
		if _, err := t.sets.destroy(want.name); err != nil {
			return explainSet("replace", want.name, err)
		}
		err = t.sets.create(want)
	}
	if err != nil {
		return explainSet("replace", want.name, err)
	}
	_, err = t.sets.destroy(fresh.name)
	return explainSet("remove", fresh.name, err)
}

// copyMembers copies as many bans as there is room for.
func (t *Iptables) copyMembers(ctx context.Context, from, to *ipset) error {
	var members []member
	err := t.sets.list(from, func(m member) error {
		m.counted = true
		if !m.except {
			members = append(members, m)
		}
		return nil
	})
	if err != nil {
		return explainSet("list", from.name, err)
	}
	if err := t.sets.add(ctx, to, members); err != nil && !errors.Is(err, ErrFull) {
		return explainSet("add to", to.name, err)
	}
	return nil
}

// prepareAllow makes the sets of what is allowed hold that, and tells what it
// found otherwise.
func (t *Iptables) prepareAllow(ctx context.Context) (found []string, err error) {
	v4, v6, err := families(t.allow)
	if err != nil {
		return nil, err
	}
	sets := allowIPSets(t.opt)
	for _, x := range []struct {
		set  *ipset
		want []netip.Prefix
	}{{sets[setAllow4], halves(disjoint(v4))}, {sets[setAllow6], halves(disjoint(v6))}} {
		changed, err := t.setMembers(ctx, x.set, x.want)
		if err != nil {
			return nil, err
		}
		if changed {
			found = append(found, "set "+x.set.name+" differs")
		}
	}
	return found, nil
}

// halves writes the network of all addresses as two: a hash:net has no place
// for it.
func halves(prefixes []netip.Prefix) []netip.Prefix {
	if len(prefixes) != 1 || prefixes[0].Bits() > 0 {
		return prefixes
	}
	low := netip.PrefixFrom(prefixes[0].Addr(), 1)
	return []netip.Prefix{low, netip.PrefixFrom(last(low).Next(), 1)}
}

// setMembers makes a set without timeouts hold exactly these. What is missing
// goes in first.
func (t *Iptables) setMembers(ctx context.Context, set *ipset, want []netip.Prefix) (changed bool, err error) {
	missing := make(map[netip.Prefix]struct{}, len(want))
	for _, p := range want {
		missing[p] = struct{}{}
	}
	var add, remove []member
	err = t.sets.list(set, func(m member) error {
		if _, ok := missing[m.target]; ok && !m.except {
			delete(missing, m.target)
		} else if !ok {
			remove = append(remove, m)
		}
		return nil
	})
	if err != nil {
		return false, explainSet("list", set.name, err)
	}
	for p := range missing {
		add = append(add, member{target: p})
	}
	if err := t.sets.add(ctx, set, add); err != nil {
		return false, explainSet("add to", set.name, err)
	}
	if err := t.sets.remove(ctx, set, remove); err != nil {
		return false, explainSet("remove from", set.name, err)
	}
	return len(add)+len(remove) > 0, nil
}

// allIPSets are the names of all sets that may be ours.
func allIPSets(opt IptablesOptions) (names []string) {
	for _, set := range slices.Concat(banOrder, allowOrder, []string{setNew}) {
		names = append(names, ipsetName(opt, set))
	}
	return names
}

// explainIPSets is for an error of the connection.
func explainIPSets(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return Permanent(fmt.Errorf("%w (%s)", err, hintCapability))
	case errors.Is(err, unix.EAFNOSUPPORT):
		return Permanent(fmt.Errorf("%w (%s)", err, hintNetlink))
	case errors.Is(err, unix.EPROTONOSUPPORT):
		return Permanent(fmt.Errorf("%w (%s)", err, hintIPSet))
	}
	return err
}
