package guard

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func entry(p, reason string) Entry { return Entry{netip.MustParsePrefix(p), reason} }

func TestCheck(t *testing.T) {
	s := New([]Entry{entry("192.0.2.0/28", "trusted proxy"), entry("2001:db8:a::/48", "allowed"), entry("198.51.100.5/32", "allowed")})
	s.Update([]Entry{entry("203.0.113.1/32", "own address"), entry("2001:db8:1::1/128", "gateway"), entry("198.51.100.5/32", "own address")})
	for _, tt := range []struct{ name, target, client, want, reason string }{
		{"stranger", "203.0.113.9/32", "203.0.113.9", "203.0.113.9/32", ""},
		{"stranger, IPv6", "2001:db8:2::/64", "2001:db8:2::9", "2001:db8:2::/64", ""},
		{"trusted proxy", "192.0.2.3/32", "192.0.2.3", "", "trusted proxy"},
		{"allowed network", "2001:db8:a:1::/64", "2001:db8:a:1::9", "", "allowed"},
		{"own address", "203.0.113.1/32", "203.0.113.1", "", "own address"},
		{"two reasons: the configuration's", "198.51.100.5/32", "198.51.100.5", "", "allowed"},
		{"beside the gateway: narrowed", "2001:db8:1::/64", "2001:db8:1::9", "2001:db8:1::9/128", ""},
		{"the gateway itself", "2001:db8:1::/64", "2001:db8:1::1", "", "gateway"},
		{"an IPv4 network beside an own address: narrowed", "203.0.113.0/24", "203.0.113.9", "203.0.113.9/32", ""},
		{"a target that does not hold the client is not narrowed to it", "203.0.113.0/24", "203.0.112.9", "", "holds 203.0.113.1: own address"},
		{"loopback", "127.0.0.1/32", "127.0.0.1", "", "loopback"},
		{"IPv6 loopback", "::/64", "::1", "", "loopback"},
		{"link-local", "fe80::/64", "fe80::1", "", "link-local"},
		{"zeroconf", "169.254.1.1/32", "169.254.1.1", "", "link-local"},
		{"multicast", "ff02::/64", "ff02::1", "", "multicast"},
		{"class E", "245.1.2.3/32", "245.1.2.3", "", "no client's address"},
		{"unspecified", "0.0.0.0/32", "0.0.0.0", "", "no client's address"},
		{"/24", "198.18.1.0/24", "198.18.1.9", "198.18.1.0/24", ""},
		{"wider than that", "198.18.0.0/15", "198.18.1.9", "198.18.0.0/15", ""},
		{"around an allowed network: narrowed", "2001:db8::/32", "2001:db8:2::9", "2001:db8:2::9/128", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, reason := s.Check("", netip.MustParsePrefix(tt.target), netip.MustParseAddr(tt.client))
			text := ""
			if got.IsValid() {
				text = got.String()
			}
			if text != tt.want || reason != tt.reason {
				t.Errorf("got %q %q, want %q %q", text, reason, tt.want, tt.reason)
			}
			if reason == "" {
				if why, yes := s.Protected(got); yes {
					t.Errorf("allowed %v, which is protected: %s", got, why)
				}
			}
		})
	}
}

func TestVersion(t *testing.T) {
	s := New(nil)
	own := []Entry{entry("203.0.113.1/32", "own address")}
	before := s.Version()
	s.Update(own)
	changed := s.Version()
	s.Update(own)
	if changed == before || s.Version() != changed {
		t.Errorf("versions %d, %d, %d: want another one only after a change", before, changed, s.Version())
	}
}

func TestShared(t *testing.T) {
	s := New([]Entry{entry("2001:db8:a::/48", "allowed"), entry("2001:db8:b:1::80/121", "trusted proxy")})
	s.Update([]Entry{entry("2001:db8:1::1/128", "own address"), entry("203.0.113.1/32", "own address")})
	for network, want := range map[string]bool{
		"2001:db8:1::/64":   true,
		"2001:db8:2::/64":   false,
		"2001:db8:b:1::/64": true,
		"2001:db8:a:1::/64": false, // all of it is allowed
		"::/64":             true,  // loopback
	} {
		if got := s.Shared(netip.MustParsePrefix(network)); got != want {
			t.Errorf("Shared(%s) = %v", network, got)
		}
	}
}

// What is known of the host, and the addresses of names, come and go each for
// themselves.
func TestUpdatesAreKeptApart(t *testing.T) {
	s := New([]Entry{entry("198.51.100.5/32", "allowed")})
	says := func(want map[string]string) {
		t.Helper()
		for target, reason := range want {
			if got, _ := s.Protected(netip.MustParsePrefix(target)); got != reason {
				t.Errorf("%s: %q, want %q", target, got, reason)
			}
		}
	}
	s.Update([]Entry{entry("203.0.113.1/32", "own address")})
	s.UpdateNames([]Entry{entry("203.0.113.2/32", "allowed: a.example"), entry("2001:db8:1::1/128", "allowed: a.example")})
	says(map[string]string{
		"203.0.113.1/32": "own address", "203.0.113.2/32": "allowed: a.example", "2001:db8:1::/64": "holds 2001:db8:1::1: allowed: a.example",
		"198.51.100.5/32": "allowed",
	})
	if s.Shared(netip.MustParsePrefix("2001:db8:1::/64")) {
		t.Error("whoever answers for a name can have a network counted by address")
	}
	s.Update([]Entry{entry("203.0.113.3/32", "own address")})
	says(map[string]string{"203.0.113.1/32": "", "203.0.113.2/32": "allowed: a.example", "203.0.113.3/32": "own address"})
	s.UpdateNames(nil)
	says(map[string]string{"203.0.113.2/32": "", "2001:db8:1::/64": "", "203.0.113.3/32": "own address", "198.51.100.5/32": "allowed"})
}

func TestConfiguredAndAllowances(t *testing.T) {
	s := New([]Entry{entry("198.51.100.5/32", "allowed")})
	says := func(want map[string]string) {
		t.Helper()
		for target, reason := range want {
			if got, yes := s.Protected(netip.MustParsePrefix(target)); got != reason || yes != (reason != "") {
				t.Errorf("%s: %q, %t, want %q", target, got, yes, reason)
			}
		}
	}
	byHand := []Entry{entry("203.0.113.0/28", "allowed by hand"), entry("198.51.100.5/32", "allowed by hand"), entry("2001:db8:1::1/128", "allowed by hand")}
	s.UpdateAllowances(byHand)
	byHand[0] = entry("192.0.2.0/24", "the caller's own")
	s.UpdateConfigured([]Entry{entry("198.51.100.6/32", "trusted proxy")})
	says(map[string]string{
		"198.51.100.5/32": "allowed by hand", "198.51.100.6/32": "trusted proxy",
		"203.0.113.3/32": "allowed by hand", "192.0.2.1/32": "",
		"127.0.0.1/32": "loopback", // whatever is configured
	})
	if !s.Shared(netip.MustParsePrefix("2001:db8:1::/64")) {
		t.Error("a network is banned whole although one of its addresses is allowed by hand")
	}
	s.UpdateConfigured([]Entry{entry("198.51.100.5/32", "trusted proxy")})
	says(map[string]string{"198.51.100.5/32": "trusted proxy", "198.51.100.6/32": ""})
	before := s.Version()
	s.UpdateAllowances(nil)
	if s.Version() == before {
		t.Error("the version is the same although allowances have ended")
	}
	says(map[string]string{"203.0.113.3/32": "", "198.51.100.5/32": "trusted proxy", "2001:db8:1::/64": ""})
}

// A network that holds anybody protected is never a target, and one that
// holds nobody is, however wide: that is not for the guard to say.
func TestProtectedNetworks(t *testing.T) {
	s := New([]Entry{entry("198.51.100.0/28", "trusted proxy"), entry("203.0.113.5/32", "allowed")})
	for target, want := range map[string]string{
		"203.0.113.0/24":  "holds 203.0.113.5: allowed",
		"203.0.113.0/30":  "",
		"198.51.100.0/24": "holds 198.51.100.0/28: trusted proxy",
		"198.51.100.0/28": "trusted proxy",
		"198.51.100.8/29": "trusted proxy",
		"192.0.0.0/14":    "",
		"112.0.0.0/5":     "",
		"120.0.0.0/5":     "holds 127.0.0.0/8: loopback",
		"2001:db8::/63":   "",
		"2001:db8::/16":   "",
		"fe00::/8":        "holds fe80::/10: link-local",
	} {
		if reason, yes := s.Protected(netip.MustParsePrefix(target).Masked()); reason != want || yes != (want != "") {
			t.Errorf("Protected(%s) = %q, %t, want %q", target, reason, yes, want)
		}
	}
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		if reason, yes := s.Protected(netip.MustParsePrefix(all)); !yes || !strings.HasPrefix(reason, "holds ") {
			t.Errorf("Protected(%s) = %q, %t", all, reason, yes)
		}
	}
	if _, yes := s.Protected(netip.Prefix{}); !yes {
		t.Error("the zero prefix may be banned")
	}
}

// Whatever overlaps an entry is protected, and nothing else.
func TestProtectedIsOverlap(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) netip.Prefix {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}), 3, 3).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "v4") {
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{b[0], b[1], b[2]}), rapid.IntRange(0, 32).Draw(t, "bits")).Masked()
		}
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{b[0], b[1], 15: b[2]}), rapid.IntRange(0, 128).Draw(t, "bits")).Masked()
	})
	rapid.Check(t, func(t *rapid.T) {
		var configured []Entry
		for _, p := range rapid.SliceOfN(draw, 0, 4).Draw(t, "configured") {
			configured = append(configured, Entry{p, "allowed"})
		}
		s := New(configured)
		target := draw.Draw(t, "target")
		want := slices.ContainsFunc(s.Entries(), func(e Entry) bool { return e.Prefix.Overlaps(target) })
		if reason, yes := s.Protected(target); yes != want || (reason != "") != want {
			t.Fatalf("Protected(%s) = %q, %t, want %t of %v", target, reason, yes, want, s.Entries())
		}
	})
}
