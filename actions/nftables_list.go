//go:build linux

package actions

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/google/nftables"
)

// listTries is how often a listing is begun again because the ruleset changed
// meanwhile. Any table's change counts, so the last listing is taken.
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
		if entries, err = n.list(ctx); err != nil {
			return nil, n.checked(err)
		}
		after, err := n.conn.GetGen()
		if err != nil {
			return nil, n.checked(n.explain("read the generation for", err))
		}
		if before.ID == after.ID {
			break
		}
	}
	return entries, nil
}

func (n *Nftables) list(ctx context.Context) ([]Entry, error) {
	var entries []Entry
	for _, set := range banSets(n.opt) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		elements, err := n.conn.GetSetElements(set)
		if err != nil {
			return nil, n.explainElements("list", set, err)
		}
		if set.Interval {
			entries = n.appendNetworks(entries, set.Name, elements)
		} else {
			entries = n.appendEntries(entries, set.Name, elements)
		}
	}
	return entries, nil
}

// appendEntries decodes elements of a set of addresses. The kernel may name one twice if its table
// grows meanwhile.
func (n *Nftables) appendEntries(entries []Entry, set string, elements []nftables.SetElement) []Entry {
	seen := make(map[netip.Prefix]struct{}, len(elements))
	for _, e := range elements {
		target, ok := targetOf(set, e.Key)
		if !ok {
			n.log.Warn("element of a set cannot be read", slog.String("set", set), slog.Int("length", len(e.Key)))
			continue
		}
		if _, twice := seen[target]; twice || ended(e) {
			continue
		}
		seen[target] = struct{}{}
		entries = append(entries, entryOf(target, e))
	}
	return entries
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
	entry := Entry{Target: target}
	if e.Timeout > 0 {
		entry.Left = e.Expires
	}
	if e.Counter != nil {
		entry.Packets = e.Counter.Packets
	}
	return entry
}
