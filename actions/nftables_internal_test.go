//go:build linux

package actions

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"pgregory.net/rapid"
)

func TestSetFor(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"192.0.2.1/32": setBan4, "192.0.2.0/24": setNet4, "192.0.2.0/31": setNet4, "10.0.0.0/8": setNet4,
		"0.0.0.0/0": "", "10.0.0.0/7": "",
		"2001:db8::/64": setBan6, "2001:db8::1/128": setHost6,
		"2001:db8::/63": setNet6, "2001:db8::/65": setNet6, "2001:db8::/127": setNet6, "2001::/16": setNet6,
		"2000::/15": "", "::/0": "",
		"::ffff:192.0.2.1/128": "",
	}
	for target, want := range tests {
		if got := setFor(netip.MustParsePrefix(target)); got != want {
			t.Errorf("setFor(%s) = %q, want %q", target, got, want)
		}
	}
	if got := setFor(netip.Prefix{}); got != "" {
		t.Errorf("setFor of the zero prefix = %q", got)
	}
}

// FuzzTarget: what a listing names can be removed under that name.
func FuzzTarget(f *testing.F) {
	f.Add(setBan4, []byte{192, 0, 2, 1})
	f.Add(setBan6, bytes.Repeat([]byte{1}, 16))
	f.Add(setHost6, append(make([]byte, 10), 0xff, 0xff, 1, 2, 3, 4))
	f.Add(setBan4, []byte{})
	f.Fuzz(func(t *testing.T, set string, key []byte) {
		target, ok := targetOf(set, key)
		if !ok {
			return
		}
		if setFor(target) != set || !bytes.Equal(target.Addr().AsSlice(), key) {
			t.Errorf("element %x of %s is listed as %s, which is %x of %s",
				key, set, target, target.Addr().AsSlice(), setFor(target))
		}
	})
}

// prefixes draws masked prefixes that often overlap and touch.
func prefixes(bits int) *rapid.Generator[[]netip.Prefix] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
		b := make([]byte, bits/8)
		edge := rapid.SampledFrom([]byte{0, 1, 0x7f, 0x80, 0xff})
		for i := range b {
			b[i] = 0xff * byte(rapid.IntRange(0, 1).Draw(t, "fill"))
		}
		b[0], b[len(b)-1] = edge.Draw(t, "first"), edge.Draw(t, "last")
		a, _ := netip.AddrFromSlice(b)
		return netip.PrefixFrom(a, rapid.IntRange(0, bits).Draw(t, "bits")).Masked()
	}), 0, 12)
}

// inIntervals looks an address up as the kernel does: the last element at or
// below it says whether an interval is open.
func inIntervals(elements []nftables.SetElement, key []byte) bool {
	in := false
	var at []byte
	for _, e := range elements {
		c := bytes.Compare(e.Key, key)
		// Where one interval ends and the next begins, the beginning counts.
		if c > 0 || at != nil && bytes.Compare(e.Key, at) < 0 {
			continue
		}
		if bytes.Equal(e.Key, at) && e.IntervalEnd {
			continue
		}
		at, in = e.Key, !e.IntervalEnd
	}
	return in
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{32, 128} {
		rapid.Check(t, func(t *rapid.T) {
			ps := prefixes(bits).Draw(t, "prefixes")
			elements := intervals(ps)
			for _, p := range ps {
				for _, a := range []netip.Addr{p.Addr(), last(p), p.Addr().Prev(), last(p).Next()} {
					if !a.IsValid() {
						continue
					}
					want := false
					for _, q := range ps {
						want = want || q.Contains(a)
					}
					if got := inIntervals(elements, a.AsSlice()); got != want {
						t.Fatalf("%s is in the set: %t, want %t\n%v", a, got, want, elements)
					}
				}
			}
		})
	}
}

func TestDisjoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		out := disjoint(prefixes(32).Draw(t, "prefixes"))
		for i, p := range out {
			for _, q := range out[:i] {
				if p.Overlaps(q) {
					t.Fatalf("%s and %s overlap", q, p)
				}
			}
		}
	})
}

// A dump of the kernel is not trusted to be free of what has just ended, of
// repetitions, or of what is none of ours.
func TestAppendEntries(t *testing.T) {
	t.Parallel()
	n := &Nftables{log: slog.New(slog.DiscardHandler)}
	key := func(last byte) []byte { return []byte{192, 0, 2, last} }
	got, twice := n.appendEntries(nil, setBan4, []nftables.SetElement{
		{Key: key(1), Timeout: time.Hour, Expires: time.Minute, Counter: &expr.Counter{Packets: 7}},
		{Key: key(1), Timeout: time.Hour, Expires: time.Minute},
		{Key: key(2), Timeout: time.Hour},
		{Key: key(3)},
		{Key: []byte{1, 2, 3}},
	})
	want := []Entry{
		{Target: netip.MustParsePrefix("192.0.2.1/32"), Left: time.Minute, Packets: 7},
		{Target: netip.MustParsePrefix("192.0.2.3/32")},
	}
	if !slices.Equal(got, want) {
		t.Errorf("entries are %v, want %v", got, want)
	}
	if !twice {
		t.Error("one is named twice and nothing is said")
	}
	if _, twice = n.appendEntries(nil, setBan4, []nftables.SetElement{{Key: key(1)}, {Key: key(2)}}); twice {
		t.Error("none is named twice, and it is said")
	}
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, opt := range map[string]NftablesOptions{
		"80, 443": {Ports: []uint16{80, 443}},
		"80":      {Ports: []uint16{80}},
		"8080":    {Ports: []uint16{8080}},
		"all":     {AllPorts: true},
		"reject":  {Reject: true},
		"both":    {AllPorts: true, Reject: true},
	} {
		f := fingerprint(rulesFor(opt))
		if other, ok := seen[f]; ok {
			t.Errorf("%s and %s have the same fingerprint", name, other)
		}
		seen[f] = name
		if g := fingerprint(rulesFor(opt)); g != f {
			t.Errorf("%s has the fingerprints %s and %s", name, f, g)
		}
	}
}

// Kernels before 5.9 refuse to reject at our hook, as later ones do at this.
func TestRejectIsRefused(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	n := nftablesIn(t, ns, NftablesOptions{Reject: true})
	if err := n.connect(); err != nil {
		t.Fatal(err)
	}
	want, err := newRuleset(n.opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	want.chain.Hooknum = nftables.ChainHookPostrouting
	err = n.bringAbout(want, repair{table: tableMissing})
	if err == nil || errors.Is(err, ErrPermanent) || !strings.Contains(err.Error(), hintReject) {
		t.Errorf("installing returned %v, want the hint %q", err, hintReject)
	}
}

func of(p netip.Prefix, timeout time.Duration) span {
	return span{first: p.Addr(), last: last(p), element: nftables.SetElement{Timeout: timeout}}
}

// What is encoded, listed in any order and between others that do not
// overlap, is read back.
func TestSpansReadWhatIsEncoded(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{32, 128} {
		rapid.Check(t, func(t *rapid.T) {
			want := disjoint(prefixes(bits).Draw(t, "prefixes"))
			var elements []nftables.SetElement
			for i, p := range want {
				elements = append(elements, of(p, time.Duration(i+1)*time.Hour).elements()...)
			}
			again := rapid.SliceOfN(rapid.IntRange(0, max(0, len(elements)-1)), 0, len(elements)).Draw(t, "named twice")
			for _, i := range again {
				elements = append(elements, elements[i])
			}
			got, unread := spans(rapid.Permutation(elements).Draw(t, "order"))
			if unread != 0 || len(got) != len(want) {
				t.Fatalf("read %v and %d unread, want %v", got, unread, want)
			}
			for i, s := range got {
				p, ok := s.prefix()
				if !ok || p != want[i] || s.element.Timeout != time.Duration(i+1)*time.Hour {
					t.Fatalf("span %d is %s for %v, want %s", i, s, s.element.Timeout, want[i])
				}
				for _, q := range prefixes(bits).Draw(t, "others") {
					if s.overlaps(q) != p.Overlaps(q) {
						t.Fatalf("%s overlaps %s: %t", s, q, s.overlaps(q))
					}
				}
			}
		})
	}
}

// FuzzSpans: whatever the kernel lists, networks that are named can be
// removed, and none reaches into another.
func FuzzSpans(f *testing.F) {
	f.Add([]byte{10, 0, 0, 0, 0, 10, 0, 1, 0, 1}, 4)
	f.Add([]byte{10, 0, 0, 0, 0, 10, 0, 0, 0, 0, 10, 0, 1, 0, 1, 10, 0, 2, 0, 1}, 4)
	f.Add(bytes.Repeat([]byte{0xff}, 34), 16)
	f.Add([]byte{1, 0}, 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		if size < 1 || size > 16 {
			return
		}
		var elements []nftables.SetElement
		for part := range slices.Chunk(data, size+1) {
			if len(part) == size+1 {
				elements = append(elements, nftables.SetElement{Key: part[:size], IntervalEnd: part[size]&1 == 1})
			}
		}
		got, unread := spans(elements)
		if size != 4 && size != 16 && (len(got) > 0 || unread != len(elements)) {
			t.Fatalf("keys of %d bytes: read %v", size, got)
		}
		for i, s := range got {
			if s.last.Less(s.first) || i > 0 && !got[i-1].last.Less(s.first) {
				t.Errorf("%s after %v", s, got[:i])
			}
			p, ok := s.prefix()
			if !ok {
				continue
			}
			e := of(p, 0).elements()
			if !bytes.Equal(e[0].Key, s.element.Key) || last(p) != s.last {
				t.Errorf("%s is listed as %s", s, p)
			}
		}
	})
}

// What has just ended is listed by some kernels, and must not be written back.
func TestWithoutWhatEnded(t *testing.T) {
	t.Parallel()
	alive, ending := of(netip.MustParsePrefix("10.1.0.0/16"), time.Hour), of(netip.MustParsePrefix("10.2.0.0/16"), time.Hour)
	alive.element.Expires = time.Minute
	got, changed := without([]span{alive, ending}, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")})
	if len(got) != 1 || got[0].first != alive.first || changed {
		t.Errorf("left are %v, changed %t; want %s and no change", got, changed, alive)
	}
	if got, changed = without([]span{alive, ending}, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}); len(got) != 0 || !changed {
		t.Errorf("left are %v, changed %t; want none and a change", got, changed)
	}
}
