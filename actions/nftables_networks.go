//go:build linux

package actions

import (
	"bytes"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// netSize is how many networks of one family can be banned: the kernel looks
// them up in a tree, and all of them are written with every change.
const netSize = 1024

// span is an interval of addresses as an element begins it.
type span struct {
	first, last netip.Addr // both in it
	element     nftables.SetElement
}

// spans reads the elements of an interval set, in any order. Where an end is
// missing, an interval goes on to the next element, as for the kernel. The
// end of an interval that has expired may be left over and means nothing.
// unread is how many elements are no addresses.
func spans(elements []nftables.SetElement) (out []span, unread int) {
	sorted := slices.SortedFunc(slices.Values(elements), byKey)
	for i, e := range sorted {
		first, ok := netip.AddrFromSlice(e.Key)
		if !ok {
			unread++
			continue
		}
		if e.IntervalEnd {
			continue
		}
		end := last(netip.PrefixFrom(first, 0))
		if i+1 < len(sorted) {
			if next, ok := netip.AddrFromSlice(sorted[i+1].Key); ok {
				end = next.Prev()
			}
		}
		// An element that is named twice would be followed by itself.
		if end.IsValid() && !end.Less(first) {
			out = append(out, span{first: first, last: end, element: e})
		}
	}
	return out, unread
}

// byKey orders elements by address; where one interval ends and the next
// begins, the end comes first.
func byKey(a, b nftables.SetElement) int {
	if c := bytes.Compare(a.Key, b.Key); c != 0 || a.IntervalEnd == b.IntervalEnd {
		return c
	}
	if a.IntervalEnd {
		return -1
	}
	return 1
}

// prefix returns the network that the span is, if it is one.
func (s span) prefix() (netip.Prefix, bool) {
	p := netip.PrefixFrom(s.first, commonBits(s.first, s.last))
	return p, p == p.Masked() && last(p) == s.last
}

// commonBits is how many bits two addresses of a family begin with in common.
func commonBits(a, b netip.Addr) int {
	x, y := a.AsSlice(), b.AsSlice()
	for i := range x {
		if d := x[i] ^ y[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return a.BitLen()
}

func (s span) overlaps(p netip.Prefix) bool {
	return !s.last.Less(p.Addr()) && !last(p).Less(s.first)
}

func (s span) String() string {
	if p, ok := s.prefix(); ok {
		return p.String()
	}
	return fmt.Sprintf("%s-%s", s.first, s.last)
}

// elements returns what the span is in a set: where it begins and, unless it
// reaches the last address of all, where it is over.
func (s span) elements() []nftables.SetElement {
	begin := s.element
	begin.Key = s.first.AsSlice()
	e := []nftables.SetElement{begin}
	if end := s.last.Next(); end.IsValid() {
		e = append(e, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
	}
	return e
}

// changeNetworks writes an interval set anew, in one transaction, with what it
// held and the changes. Networks cannot be added and removed one by one: one
// that has expired, and that nobody can see or delete, keeps the kernel from
// taking another around it for as long as it likes.
func (n *Nftables) changeNetworks(set *nftables.Set, add []Entry, remove []netip.Prefix) ([]Rejection, error) {
	if len(add) == 0 && len(remove) == 0 {
		return nil, nil
	}
	elements, err := dumpElements(n.socket, set)
	if err != nil {
		return nil, n.explainElements("list", set, err)
	}
	held, _ := spans(elements)
	networks, changed := without(held, remove)
	networks, rejected, full := with(networks, add)
	n.count(func(s *NftablesStats) { s.Overlapping += uint64(len(rejected)) })
	if changed || len(add) > len(rejected) {
		if err := n.writeNetworks(set, networks); err != nil {
			return nil, n.explainElements("write", set, err)
		}
	}
	if full {
		return nil, n.explainElements("add to", set, unix.ENFILE)
	}
	return rejected, nil
}

// without takes out what has ended or is to be removed.
func without(held []span, remove []netip.Prefix) (left []span, changed bool) {
	for _, s := range held {
		if p, ok := s.prefix(); ok && slices.Contains(remove, p) {
			changed = true
		} else if !ended(s.element) {
			left = append(left, s)
		}
	}
	return left, changed
}

// with adds networks, or changes the time of those that are there. One that
// overlaps another is rejected; full means that some have found no room.
func with(held []span, add []Entry) (all []span, rejected []Rejection, full bool) {
	for _, e := range add {
		fresh := span{first: e.Target.Addr(), last: last(e.Target)}
		fresh.element.Comment = mergedComment(e.Merged)
		i := slices.IndexFunc(held, func(s span) bool { return s.overlaps(e.Target) })
		switch {
		case i >= 0 && held[i].first == fresh.first && held[i].last == fresh.last:
			held[i].element.Timeout, held[i].element.Expires = e.Left, e.Left
			held[i].element.Comment = fresh.element.Comment
		case i >= 0:
			rejected = append(rejected, Rejection{e.Target, fmt.Errorf("%w: %s", ErrOverlaps, held[i])})
		case len(held) >= netSize:
			full = true
		default:
			fresh.element.Timeout, fresh.element.Expires = e.Left, e.Left
			held = append(held, fresh)
		}
	}
	return held, rejected, full
}

// mergedText is the comment of a network that is banned as one: a later process
// must tell it from one that was banned for its own sake.
const mergedText = "banned as one, as are at least %d of its members"

func mergedComment(least int) string {
	if least == 0 {
		return ""
	}
	return fmt.Sprintf(mergedText, least)
}

// mergedOf reads it; 0: the comment says something else.
func mergedOf(comment string) int {
	least := 0
	if comment == "" {
		return 0
	}
	if _, err := fmt.Sscanf(comment, mergedText, &least); err != nil || least < 1 {
		return 0
	}
	return least
}

func (n *Nftables) writeNetworks(set *nftables.Set, networks []span) error {
	slices.SortFunc(networks, func(a, b span) int { return a.first.Compare(b.first) })
	var elements []nftables.SetElement
	for _, s := range networks {
		if s.element.Timeout > 0 {
			s.element.Timeout = max(s.element.Expires, minTimeout)
		}
		elements = append(elements, s.elements()...)
	}
	n.conn.FlushSet(set)
	if err := n.conn.SetAddElements(set, elements); err != nil {
		return err
	}
	return n.conn.Flush()
}
