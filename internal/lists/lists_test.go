package lists

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNamesAreKnownAndSorted(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) {
		t.Errorf("Names() = %q, want them sorted", names)
	}
	for _, name := range []string{"cloudflare", "fastly", "googlebot", "google-special", "google-user-triggered", "bingbot", "uptimerobot"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is missing", name)
		}
	}
	for _, name := range []string{"", "Cloudflare", "cloudflare ", "../lists", "data/cloudflare", "cloudflare.txt"} {
		if got, ok := Lookup(name); ok || got != nil {
			t.Errorf("Lookup(%q) = %v, %v, want nothing", name, got, ok)
		}
	}
}

// Each provider says who it is, where the ranges come from, and of which day
// they are.
func TestProvidersAreComplete(t *testing.T) {
	size := 0
	for _, name := range Names() {
		p, ok := Lookup(name)
		if !ok || p.Name != name || p.What == "" || len(p.Sources) == 0 || len(p.Prefixes) == 0 {
			t.Errorf("Lookup(%q) = %+v, %v", name, p, ok)
			continue
		}
		if _, err := time.Parse(time.DateOnly, p.Date); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Contains([]Kind{Proxy, Crawler, Monitor}, p.Kind) {
			t.Errorf("%s is of kind %q", name, p.Kind)
		}
		for _, s := range p.Sources {
			if !strings.HasPrefix(s, "https://") {
				t.Errorf("%s: source %q", name, s)
			}
		}
		text, err := data.ReadFile("data/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
	}
	if size > 300<<10 {
		t.Errorf("the lists take %d bytes: are they worth it?", size)
	}
}

// Ranges must be usable as they are: no host bits, no mapped addresses, none
// inside another nor two that are one, nothing that isn't routed, and none so
// wide that it must be a slip.
func TestRangesAreSane(t *testing.T) {
	for _, name := range Names() {
		p, _ := Lookup(name)
		for _, x := range p.Prefixes {
			if err := Published(x); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !slices.IsSortedFunc(p.Prefixes, order) {
			t.Errorf("%s is not sorted", name)
		}
		for i := range p.Prefixes[1:] {
			a, b := p.Prefixes[i], p.Prefixes[i+1]
			if a.Overlaps(b) {
				t.Errorf("%s: %v and %v overlap", name, a, b)
			}
			if a.Bits() == b.Bits() && netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked() == netip.PrefixFrom(b.Addr(), b.Bits()-1).Masked() {
				t.Errorf("%s: %v and %v are one range", name, a, b)
			}
		}
	}
}

func order(a, b netip.Prefix) int {
	return cmp.Or(cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()), a.Addr().Compare(b.Addr()))
}

// Two providers of different kinds never share an address: who trusts a proxy
// must not trust a crawler's customers with it.
func TestProxiesAreNothingElse(t *testing.T) {
	var names []string
	for _, proxy := range Proxies() {
		names = append(names, proxy.Name)
		for _, name := range Names() {
			other, _ := Lookup(name)
			if other.Kind == Proxy {
				continue
			}
			for _, a := range proxy.Prefixes {
				for _, b := range other.Prefixes {
					if a.Overlaps(b) {
						t.Errorf("%s has %v, and %s %v", proxy.Name, a, name, b)
					}
				}
			}
		}
	}
	if !slices.Equal(names, []string{"cloudflare", "fastly"}) {
		t.Errorf("proxies: %v", names)
	}
}

func TestProviders(t *testing.T) {
	for name, addrs := range map[string]map[string]bool{
		"cloudflare": {
			"104.16.0.1": true, "104.27.255.255": true, "104.28.0.0": false, "172.71.255.255": true, "172.72.0.0": false,
			"2606:4700::1111": true, "2a06:98c0:3600::103": true, "2a06:98c8::": false, "203.0.113.7": false, "2001:db8::1": false,
			"131.0.75.255": true, "131.0.76.0": false, "2c0f:f248:ffff::ffff": true,
		},
		"googlebot":             {"66.249.66.1": true, "66.249.80.1": false, "2001:4860:4801:10::1": true, "2001:4860:4801:2010::1": false, "8.8.8.8": false},
		"google-special":        {"66.249.90.1": true, "66.249.66.1": false, "2001:4860:4801:2010::1": true},
		"google-user-triggered": {"66.249.84.1": true, "66.249.66.1": false, "35.187.132.1": false, "2001:4860:4801:4010::1": true},
		"bingbot":               {"157.55.39.1": true, "40.77.167.200": true, "40.77.168.1": false},
		"applebot":              {"17.241.208.161": true, "17.58.0.1": false},
		"uptimerobot":           {"216.144.248.18": true, "216.144.248.20": false, "69.162.124.227": true},
	} {
		p, _ := Lookup(name)
		for addr, want := range addrs {
			a := netip.MustParseAddr(addr)
			got := slices.ContainsFunc(p.Prefixes, func(x netip.Prefix) bool { return x.Contains(a) })
			if got != want {
				t.Errorf("%s contains %s: %v, want %v", name, addr, got, want)
			}
		}
	}
}

func TestLookupGivesACopy(t *testing.T) {
	first, _ := Lookup("cloudflare")
	want := first.Prefixes[0]
	first.Prefixes[0] = netip.Prefix{}
	if again, _ := Lookup("cloudflare"); again.Prefixes[0] != want {
		t.Errorf("a caller's write shows: %v, want %v", again.Prefixes[0], want)
	}
}
