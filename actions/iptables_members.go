//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// errSetsNotPrepared is for a caller that does not keep to the order.
var errSetsNotPrepared = errors.New("not connected to the kernel's IP sets: Prepare comes first")

// longestTimeout is the longest that the kernel can tell of a member, in
// seconds: its clock counts milliseconds in 31 bits (IPSET_MAX_TIMEOUT).
const longestTimeout = 2147483

// timeoutOf is the time left in whole seconds, none of it cut off. 0 would be
// for good.
func timeoutOf(left time.Duration) uint32 {
	seconds := left / time.Second
	if left%time.Second > 0 {
		seconds++
	}
	return uint32(min(max(seconds, 1), longestTimeout))
}

// Longest implements [Limited].
func (t *Iptables) Longest() time.Duration { return longestTimeout * time.Second }

// Room is for [Bounded]. Members that have ended take up room until the kernel
// has swept them away, so not all of a set is to be filled.
func (t *Iptables) Room(target netip.Prefix) (place string, size int) {
	set := ipsetFor(target)
	if set == "" {
		return "", 0
	}
	return ipsetName(t.opt, set), t.opt.Size - t.opt.Size/9
}

// Apply implements [Action].
func (t *Iptables) Apply(ctx context.Context, add []Entry, remove []netip.Prefix) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sets == nil {
		return errSetsNotPrepared
	}
	c := sortChanges(add, remove, ipsetFor, t.opt.Protected)
	err := t.change(ctx, c.adds, c.removes)
	if err == nil && len(c.rejected) > 0 {
		err = &RejectedError{Rejected: c.rejected}
	}
	return t.checked(err)
}

// change applies to one set after the other, so that an error can name it. A
// full set keeps no other from being changed.
func (t *Iptables) change(ctx context.Context, adds map[string][]Entry, removes map[string][]netip.Prefix) error {
	var full []error
	sets := banIPSets(t.opt)
	for _, name := range banOrder {
		set := sets[name]
		var gone, come []member
		for _, target := range removes[name] {
			gone = append(gone, member{target: target})
		}
		for _, e := range adds[name] {
			come = append(come, member{target: e.Target, timeout: timeoutOf(e.Left)})
		}
		if err := t.sets.remove(ctx, set, gone); err != nil {
			return explainSet("remove from", set.name, err)
		}
		err := t.sets.add(ctx, set, come)
		if errors.Is(err, ErrFull) {
			full = append(full, explainSet("add to", set.name, err))
		} else if err != nil {
			return explainSet("add to", set.name, err)
		}
	}
	return errors.Join(full...)
}

// List implements [Action]. It only reads, and needs no Prepare.
func (t *Iptables) List(ctx context.Context) ([]Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.connect(); err != nil {
		return nil, err
	}
	var entries []Entry
	sets := banIPSets(t.opt)
	for _, name := range banOrder {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		set, strange := sets[name], 0
		err := t.sets.list(set, func(m member) error {
			if ipsetFor(m.target) != name || m.target != m.target.Masked() {
				strange++
				return nil
			}
			entries = append(entries, entryOfMember(m))
			return nil
		})
		if err != nil {
			return nil, t.checked(explainSet("list", set.name, err))
		}
		if strange > 0 {
			t.log.Warn("members of a set are no bans that could be there", slog.String("set", set.name), slog.Int("count", strange))
		}
	}
	return entries, nil
}

// entryOfMember is what a member stands for. An exception from a network counts
// as one of no use: it has no time left, so that it is removed or replaced.
func entryOfMember(m member) Entry {
	e := Entry{Target: m.target, Left: time.Duration(m.timeout) * time.Second, Packets: m.packets}
	if m.except {
		e.Left, e.Packets = 0, 0
	}
	return e
}

// Held implements [Holder]. It speaks to the kernel over a connection of its
// own, and waits for no other method. The kernel tells the time of one member
// only with all others: what is not held is known at once, what is held takes
// as long as the set is listed up to it.
func (t *Iptables) Held(ctx context.Context, target netip.Prefix) (e Entry, yes bool, err error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, false, err
	}
	name := ipsetFor(target)
	if name == "" || target != target.Masked() {
		return Entry{}, false, nil // cannot be there
	}
	sets, err := openIPSets(t.opt.NetNS)
	if err != nil {
		return Entry{}, false, explainIPSets(err)
	}
	defer func() { err = errors.Join(err, sets.close()) }()
	set := banIPSets(t.opt)[name]
	maybe, err := sets.has(set, member{target: target})
	if err != nil || !maybe {
		return Entry{}, false, explainSet("look up in", set.name, err)
	}
	err = sets.list(set, func(m member) error {
		if m.target != target || m.except {
			return nil
		}
		e, yes = entryOfMember(m), true
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return e, yes, explainSet("look up in", set.name, err)
}

// explainSet says which step failed at which set, with a hint where the cause
// can be guessed. The step is a verb, as in "list set …".
func explainSet(step, set string, err error) error {
	if err == nil {
		return nil
	}
	cause, err := err, fmt.Errorf("%s set %s: %w", step, set, err)
	switch {
	case errors.Is(cause, ErrFull):
		return fmt.Errorf("%w (raise its size)", err)
	case errors.Is(cause, unix.EPERM), errors.Is(cause, unix.EACCES):
		return Permanent(fmt.Errorf("%w (%s)", err, hintCapability))
	case errors.Is(cause, unix.ENOENT):
		return fmt.Errorf("%w (somebody else has destroyed it)", err)
	case errors.Is(cause, errSetBusy):
		return fmt.Errorf("%w (a rule that is not ours looks into it: iptables-save and iptables-legacy-save show which)", err)
	case errors.Is(cause, errSetType), errors.Is(cause, unix.EINVAL), errors.Is(cause, unix.EOPNOTSUPP):
		return fmt.Errorf("%w (%s)", err, hintIPSet)
	}
	return err
}
