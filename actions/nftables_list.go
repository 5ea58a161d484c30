//go:build linux

package actions

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/google/nftables"
)

// listTries is how often a listing is begun again because it may not be whole.
// A change of any table counts as a reason, so the last listing is taken: it is
// to be compared, and where others change things all the time bans that are
// enforced by it are better than none.
const listTries = 3

// List implements [Action]. It only reads, and needs no Prepare.
func (n *Nftables) List(ctx context.Context) ([]Entry, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.connect(); err != nil {
		return nil, err
	}
	var entries []Entry
	for range listTries {
		before, err := n.conn.GetGen()
		if err != nil {
			return nil, n.checked(n.explain("read the generation for", err))
		}
		var grew bool
		if entries, grew, err = n.list(ctx); err != nil {
			return nil, n.checked(err)
		}
		after, err := n.conn.GetGen()
		if err != nil {
			return nil, n.checked(n.explain("read the generation for", err))
		}
		if before.ID == after.ID && !grew {
			break
		}
	}
	return entries, nil
}

// list reads all sets once. grew means that one was changed meanwhile, or that
// the kernel was making room in it, as it does for a while after many
// additions: as many elements as it has then named twice it may have left out.
func (n *Nftables) list(ctx context.Context) (entries []Entry, grew bool, err error) {
	for _, set := range banSets(n.opt) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		elements, whole, err := dumpOnce(n.socket, set)
		if err != nil {
			return nil, false, n.explainElements("list", set, err)
		}
		grew = grew || !whole
		if set.Interval {
			entries = n.appendNetworks(entries, set.Name, elements)
		} else {
			var twice bool
			entries, twice = n.appendEntries(entries, set.Name, elements)
			grew = grew || twice
		}
	}
	return entries, grew, nil
}

// appendEntries decodes elements of a set of addresses, each once, and tells
// whether any was named twice.
func (n *Nftables) appendEntries(entries []Entry, set string, elements []nftables.SetElement) (out []Entry, twice bool) {
	seen := make(map[netip.Prefix]struct{}, len(elements))
	for _, e := range elements {
		target, ok := targetOf(set, e.Key)
		if !ok {
			n.log.Warn("element of a set cannot be read", slog.String("set", set), slog.Int("length", len(e.Key)))
			continue
		}
		if _, yes := seen[target]; yes {
			twice = true
			continue
		}
		seen[target] = struct{}{}
		if !ended(e) {
			entries = append(entries, entryOf(target, e))
		}
	}
	return entries, twice
}

// appendNetworks decodes elements of an interval set. What somebody else has
// put there may be no network.
func (n *Nftables) appendNetworks(entries []Entry, set string, elements []nftables.SetElement) []Entry {
	held, unread := spans(elements)
	if unread > 0 {
		n.log.Warn("elements of a set cannot be read", slog.String("set", set), slog.Int("count", unread))
	}
	for _, s := range held {
		if ended(s.element) {
			continue
		}
		target, ok := s.prefix()
		if !ok || setFor(target) != set {
			n.log.Warn("element of a set is no network that could be banned", slog.String("set", set), slog.String("interval", s.String()))
			continue
		}
		entries = append(entries, entryOf(target, s.element))
	}
	return entries
}

// ended reports whether an element no longer counts although it is still
// there.
func ended(e nftables.SetElement) bool { return e.Timeout > 0 && e.Expires <= 0 }

func entryOf(target netip.Prefix, e nftables.SetElement) Entry {
	entry := Entry{Target: target, Merged: mergedOf(e.Comment)}
	if e.Timeout > 0 {
		entry.Left = e.Expires
	}
	if e.Counter != nil {
		entry.Packets = e.Counter.Packets
	}
	return entry
}
