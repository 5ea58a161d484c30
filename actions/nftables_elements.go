//go:build linux

package actions

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

const (
	// batchSize is how many bans one transaction changes. Larger ones are
	// no faster, and this fits into the socket buffer that an unprivileged
	// user namespace gets.
	batchSize = 2000

	// minTimeout is what a shorter time left is rounded up to. A timeout of
	// less than a tick of the kernel's clock would be none at all: a ban for
	// good.
	minTimeout = 100 * time.Millisecond
)

// targetOf is what an element of a set of addresses stands for. An element that somebody
// else has put into ban6 may have bits behind the prefix; they are kept, so
// that it can be removed.
func targetOf(set string, key []byte) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(key)
	bits := a.BitLen()
	if set == setBan6 {
		bits = 64
	}
	p := netip.PrefixFrom(a, bits)
	return p, ok && setFor(p) == set
}

// Apply implements [Action].
func (n *Nftables) Apply(ctx context.Context, add []Entry, remove []netip.Prefix) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == nil {
		return errNotPrepared
	}
	c := sortChanges(add, remove, setFor, n.opt.Protected)
	n.count(func(s *NftablesStats) {
		s.Protected += c.protected
		s.Unsupported += c.unsupported
	})
	overlapping, err := n.change(ctx, c.adds, c.removes)
	c.rejected = append(c.rejected, overlapping...)
	if err == nil && len(c.rejected) > 0 {
		err = &RejectedError{Rejected: c.rejected}
	}
	return n.checked(err)
}

// change applies to one set after the other, so that an error can name it.
// A full set keeps no other from being changed.
func (n *Nftables) change(ctx context.Context, adds map[string][]Entry, removes map[string][]netip.Prefix) ([]Rejection, error) {
	var full []error
	var rejected []Rejection
	for _, set := range banSets(n.opt) {
		if set.Interval {
			overlapping, err := n.changeNetworks(set, adds[set.Name], removes[set.Name])
			rejected = append(rejected, overlapping...)
			if errors.Is(err, unix.ENFILE) {
				full = append(full, err)
			} else if err != nil {
				return nil, err
			}
			continue
		}
		err := inBatches(ctx, removes[set.Name], func(part []netip.Prefix) error { return n.remove(set, part) })
		if err != nil {
			return nil, n.explainElements("remove from", set, err)
		}
		err = inBatches(ctx, adds[set.Name], func(part []Entry) error { return n.add(set, part) })
		if errors.Is(err, unix.ENFILE) {
			full = append(full, n.explainElements("add to", set, err))
		} else if err != nil {
			return nil, n.explainElements("add to", set, err)
		}
	}
	return rejected, errors.Join(full...)
}

func inBatches[T any](ctx context.Context, all []T, f func([]T) error) error {
	for part := range slices.Chunk(all, batchSize) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(part); err != nil {
			return err
		}
	}
	return nil
}

// add is one transaction, or several to fill what room is left in a set.
func (n *Nftables) add(set *nftables.Set, e []Entry) error {
	elements := make([]nftables.SetElement, len(e))
	for i, x := range e {
		elements[i] = nftables.SetElement{Key: x.Target.Addr().AsSlice(), Timeout: max(x.Left, minTimeout)}
	}
	if err := n.queueAdd(set, elements); err != nil {
		return err
	}
	err := n.conn.Flush()
	if !errors.Is(err, unix.ENFILE) || len(e) == 1 {
		return err
	}
	if err := n.add(set, e[:len(e)/2]); err != nil {
		return err
	}
	return n.add(set, e[len(e)/2:])
}

// queueAdd makes sure that the timeout is the new one also where the element
// is there already: an old kernel needs it deleted in between, which a
// transaction hides from packets. To delete what is not there is an error,
// therefore the first addition.
func (n *Nftables) queueAdd(set *nftables.Set, e []nftables.SetElement) error {
	if n.renew {
		return n.conn.SetAddElements(set, e)
	}
	return errors.Join(
		n.conn.SetAddElements(set, e),
		n.conn.SetDeleteElements(set, e),
		n.conn.SetAddElements(set, e),
	)
}

// remove is one transaction. If one of the elements is not there, as it may
// have expired just now, nothing of it happens; then each goes by itself.
func (n *Nftables) remove(set *nftables.Set, targets []netip.Prefix) error {
	err := n.removeOnce(set, targets)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if _, err := n.conn.GetSetByName(set.Table, set.Name); err != nil {
		return err // it is the set that is not there
	}
	for i := range targets {
		if err := n.removeOnce(set, targets[i:i+1]); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return nil
}

func (n *Nftables) removeOnce(set *nftables.Set, targets []netip.Prefix) error {
	elements := make([]nftables.SetElement, len(targets))
	for i, t := range targets {
		elements[i].Key = t.Addr().AsSlice()
	}
	if err := n.conn.SetDeleteElements(set, elements); err != nil {
		return err
	}
	return n.conn.Flush()
}
