package lists

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestNamesAreKnownAndSorted(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) {
		t.Errorf("Names() = %q, want them sorted", names)
	}
	for _, name := range names {
		if got, ok := Lookup(name); !ok || len(got) == 0 {
			t.Errorf("Lookup(%q) = %v, %v, want ranges", name, got, ok)
		}
	}
	for _, name := range []string{"", "Cloudflare", "cloudflare "} {
		if got, ok := Lookup(name); ok || got != nil {
			t.Errorf("Lookup(%q) = %v, %v, want nothing", name, got, ok)
		}
	}
}

func TestSnapshotIsADate(t *testing.T) {
	if _, err := time.Parse(time.DateOnly, Snapshot); err != nil {
		t.Error(err)
	}
}

// Ranges must be usable as they are: no host bits, no mapped addresses, none
// inside another, nothing private, and none so wide that it must be a slip.
func TestRangesAreSane(t *testing.T) {
	for _, name := range Names() {
		ranges, _ := Lookup(name)
		for i, p := range ranges {
			if p != p.Masked() || p.Addr().Is4In6() || p.Addr().IsPrivate() || p.Addr().IsLoopback() {
				t.Errorf("%s: %v is no published range", name, p)
			}
			if least := map[bool]int{true: 8, false: 16}[p.Addr().Is4()]; p.Bits() < least {
				t.Errorf("%s: %v is wider than /%d", name, p, least)
			}
			for _, q := range ranges[i+1:] {
				if p.Overlaps(q) {
					t.Errorf("%s: %v and %v overlap", name, p, q)
				}
			}
		}
	}
}

func TestCloudflare(t *testing.T) {
	ranges, _ := Lookup("cloudflare")
	for addr, want := range map[string]bool{
		"104.16.0.1":           true,
		"104.27.255.255":       true,
		"104.28.0.0":           false,
		"172.71.255.255":       true,
		"172.72.0.0":           false,
		"2606:4700::1111":      true,
		"2a06:98c0:3600::103":  true,
		"2a06:98c8::":          false,
		"203.0.113.7":          false,
		"2001:db8::1":          false,
		"131.0.75.255":         true,
		"131.0.76.0":           false,
		"2c0f:f248:ffff::ffff": true,
	} {
		a := netip.MustParseAddr(addr)
		got := slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
		if got != want {
			t.Errorf("cloudflare contains %s: %v, want %v", addr, got, want)
		}
	}
}

func TestLookupGivesACopy(t *testing.T) {
	first, _ := Lookup("cloudflare")
	want := first[0]
	first[0] = netip.Prefix{}
	if again, _ := Lookup("cloudflare"); again[0] != want {
		t.Errorf("a caller's write shows: %v, want %v", again[0], want)
	}
}
