//go:build linux

package actions

import (
	"context"
	"errors"
	"net/netip"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

var _ Holder = (*Nftables)(nil)

// Held implements [Holder]. It speaks to the kernel over a connection of its
// own, and waits for no other method.
func (n *Nftables) Held(ctx context.Context, target netip.Prefix) (e Entry, yes bool, err error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, false, err
	}
	name := setFor(target)
	if name == "" || target != target.Masked() {
		return Entry{}, false, nil // cannot be there
	}
	conn, _, err := n.dial()
	if err != nil {
		return Entry{}, false, err
	}
	defer func() { err = errors.Join(err, closeConn(conn)) }()
	for _, set := range banSets(n.opt) {
		if set.Name != name {
			continue
		}
		element, err := find(conn, set, target)
		if errors.Is(err, unix.ENOENT) {
			return n.absent(conn, set)
		}
		if err != nil {
			return Entry{}, false, n.explainElements("look up in", set, err)
		}
		if element == nil || ended(*element) {
			return Entry{}, false, nil
		}
		return entryOf(target, *element), true, nil
	}
	return Entry{}, false, nil
}

// absent tells an element that is not there from a set that is not.
func (n *Nftables) absent(conn *nftables.Conn, set *nftables.Set) (Entry, bool, error) {
	_, err := conn.GetSetByName(set.Table, set.Name)
	return Entry{}, false, n.explainElements("look up in", set, err)
}

// find asks for the one element of a target; nil: there is none.
func find(conn *nftables.Conn, set *nftables.Set, target netip.Prefix) (*nftables.SetElement, error) {
	begin, err := findAt(conn, set, target.Addr())
	if err != nil || !set.Interval {
		return begin, err
	}
	// The kernel names the interval that an address is in by where it begins.
	// It is the target if the target's last address is in the same one and
	// the next is not.
	if begin == nil || string(begin.Key) != string(target.Addr().AsSlice()) {
		return nil, nil
	}
	end, err := findAt(conn, set, last(target))
	if err != nil || end == nil || string(end.Key) != string(begin.Key) {
		return nil, err
	}
	next := last(target).Next()
	if !next.IsValid() {
		return begin, nil
	}
	beyond, err := findAt(conn, set, next)
	switch {
	case errors.Is(err, unix.ENOENT):
		return begin, nil
	case err != nil || beyond != nil && string(beyond.Key) == string(begin.Key):
		return nil, err
	}
	return begin, nil
}

func findAt(conn *nftables.Conn, set *nftables.Set, a netip.Addr) (*nftables.SetElement, error) {
	found, err := conn.FindSetElements(set, []nftables.SetElement{{Key: a.AsSlice()}})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
