package parser

import (
	"net/netip"
	"strings"
	"testing"
)

func prefixes(ss ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range ss {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func TestResolve(t *testing.T) {
	r := NewResolver(prefixes("192.0.2.0/24", "10.0.0.0/8", "fd00::/8", "2001:db8:ffff::/48"))
	const proxy = "192.0.2.1"
	tests := []struct{ name, peer, header, client, how string }{
		{"stranger", "203.0.113.9", "", "203.0.113.9", "direct"},
		{"stranger forges a header", "203.0.113.9", "198.51.100.1", "203.0.113.9", "direct"},
		{"private stranger", "192.168.1.5", "198.51.100.1", "192.168.1.5", "direct"},
		{"one hop", proxy, "198.51.100.1", "198.51.100.1", "forwarded"},
		{"forged left part", proxy, "203.0.113.66, 198.51.100.1", "198.51.100.1", "forwarded"},
		{"inner proxies", proxy, "203.0.113.66, 198.51.100.1, 10.1.2.3, 10.0.0.9", "198.51.100.1", "forwarded"},
		{"no blanks", proxy, "203.0.113.66,198.51.100.1,10.1.2.3", "198.51.100.1", "forwarded"},
		{"many blanks", proxy, "  198.51.100.1 \t,   10.1.2.3 ", "198.51.100.1", "forwarded"},
		{"port", proxy, "198.51.100.1:51234", "198.51.100.1", "forwarded"},
		{"brackets", proxy, "[2001:db8::66]", "2001:db8::66", "forwarded"},
		{"brackets and port", proxy, "[2001:db8::66]:443", "2001:db8::66", "forwarded"},
		{"IPv6", proxy, "2001:DB8:0::66", "2001:db8::66", "forwarded"},
		{"quotes", proxy, `"198.51.100.1"`, "198.51.100.1", "forwarded"},
		{"quotes by nginx", proxy, `\x22[2001:db8::66]:1\x22`, "2001:db8::66", "forwarded"},
		{"quotes by Apache", proxy, `\"198.51.100.1\"`, "198.51.100.1", "forwarded"},
		{"mapped", proxy, "::ffff:198.51.100.1", "198.51.100.1", "forwarded"},
		{"mapped trusted hop", proxy, "198.51.100.1, ::ffff:10.0.0.1", "198.51.100.1", "forwarded"},
		{"mapped in hex", proxy, "::ffff:c633:6401", "198.51.100.1", "forwarded"},
		{"NAT64", proxy, "64:ff9b::198.51.100.1", "64:ff9b::c633:6401", "forwarded"},
		{"IPv6 proxy", "fd00::7", "2001:db8::66, fd00::9", "2001:db8::66", "forwarded"},
		{"unknown in front", proxy, "unknown, 198.51.100.1", "198.51.100.1", "forwarded"},
		{"empty entries", proxy, " , 198.51.100.1,, ", "198.51.100.1", "forwarded"},

		{"no header", proxy, "", proxy, "infrastructure"},
		{"only commas", proxy, ", ,", proxy, "infrastructure"},
		{"only trusted hops", proxy, "10.0.0.1, 10.0.0.2", proxy, "infrastructure"},

		{"unknown", proxy, "unknown", "", "nobody"},
		{"unknown last", proxy, "198.51.100.1, unknown", "", "nobody"},
		{"garbage behind a trusted hop", proxy, "198.51.100.1, x, 10.0.0.1", "", "nobody"},
		{"obfuscated", proxy, "_hidden", "", "nobody"},
		{"private", proxy, "192.168.1.77", "", "nobody"},
		{"private in front of which a client stands", proxy, "198.51.100.1, 172.16.0.1", "", "nobody"},
		{"loopback", proxy, "127.0.0.1", "", "nobody"},
		{"IPv6 loopback", proxy, "::1", "", "nobody"},
		{"link-local with a zone", proxy, "fe80::1%eth0", "", "nobody"},
		{"zone on a global address", proxy, "2001:db8::66%eth0", "", "nobody"},
		{"percent-coded colon", proxy, "2001:db8::66%3A80", "", "nobody"},
		{"unspecified", proxy, "0.0.0.0", "", "nobody"},
		{"this network", proxy, "0.1.2.3", "", "nobody"},
		{"carrier NAT", proxy, "100.64.1.2", "", "nobody"},
		{"multicast", proxy, "224.0.0.1", "", "nobody"},
		{"Pseudo IPv4", proxy, "242.1.2.3", "", "nobody"},
		{"broadcast", proxy, "255.255.255.255", "", "nobody"},
		{"octet over 255", proxy, "198.51.100.999", "", "nobody"},
		{"leading zero", proxy, "198.51.100.001", "", "nobody"},
		{"number", proxy, "3325256705", "", "nobody"},
		{"text behind", proxy, "198.51.100.1; x", "", "nobody"},
		{"blank inside", proxy, "198.51.100.1 203.0.113.66", "", "nobody"},
		{"port too big", proxy, "198.51.100.1:99999", "", "nobody"},
		{"port missing", proxy, "198.51.100.1:", "", "nobody"},
		{"open bracket", proxy, "[2001:db8::66", "", "nobody"},
		{"text behind bracket", proxy, "[2001:db8::66]x", "", "nobody"},
		{"IPv4 in brackets", proxy, "[198.51.100.1]", "", "nobody"},
		{"empty brackets", proxy, "[]", "", "nobody"},
		{"one quote", proxy, `"198.51.100.1`, "", "nobody"},
		{"lone quote", proxy, `"`, "", "nobody"},
		{"name", proxy, "client.example.net", "", "nobody"},
		{"RFC 7239", proxy, "for=198.51.100.1", "", "nobody"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, how := r.Resolve(netip.MustParseAddr(tt.peer), []byte(tt.header))
			checkTrace(t, r, netip.MustParseAddr(tt.peer), tt.header, client, how)
			got := ""
			if client.IsValid() {
				got = client.String()
			}
			if got != tt.client || how.String() != tt.how {
				t.Errorf("got %s (%s), want %s (%s)", got, how, tt.client, tt.how)
			}
		})
	}
}

// checkTrace checks that a trace comes to the same end, and by what is written
// in the header.
func checkTrace(t *testing.T, r *Resolver, peer netip.Addr, header string, client netip.Addr, how Resolution) {
	t.Helper()
	hops, tracedClient, tracedHow := r.Trace(peer, []byte(header))
	if tracedClient != client || tracedHow != how {
		t.Fatalf("%q: traced %v (%s), resolved %v (%s)", header, tracedClient, tracedHow, client, how)
	}
	if hops[0].Header || hops[0].Addr != peer || hops[0].Trusted != r.Trusted(peer) {
		t.Fatalf("%q: first hop %+v", header, hops[0])
	}
	rest := header
	for _, h := range hops[1:] {
		if h.Result == "" || !h.Header {
			t.Fatalf("%q: hop %+v", header, h)
		}
		rest = strings.TrimRight(strings.TrimSpace(rest), " ")
		if !strings.HasSuffix(rest, strings.TrimSpace(h.Text)) {
			t.Fatalf("%q: hop %q does not stand at the end of %q", header, h.Text, rest)
		}
		rest = strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(rest, strings.TrimSpace(h.Text))), ",")
	}
	if how != Direct && strings.TrimSpace(rest) != "" {
		t.Fatalf("%q: %q is in no hop", header, rest)
	}
}

func TestTraceOfHops(t *testing.T) {
	r := NewResolver(prefixes("192.0.2.0/24", "10.0.0.0/8"))
	for _, tt := range []struct{ peer, header, want string }{
		{"203.0.113.9", "", "203.0.113.9: no trusted proxy: it is the client"},
		{"203.0.113.9", "198.51.100.1", "203.0.113.9: no trusted proxy: it is the client, and the header that it sent is ignored"},
		{"192.0.2.1", `203.0.113.66, "[2001:db8::1]:80",, 10.0.0.1`, `192.0.2.1, trusted: a trusted proxy: its header is looked at, from the right
10.0.0.1 = 10.0.0.1, trusted: a trusted proxy: on to the next
: empty: passed over
"[2001:db8::1]:80" = 2001:db8::1: no trusted proxy: it is the client
203.0.113.66: not looked at: it was written by whoever is to the right of it`},
		{"192.0.2.1", "198.51.100.1, unknown", `192.0.2.1, trusted: a trusted proxy: its header is looked at, from the right
unknown: no address: the event counts for nobody
198.51.100.1: not looked at: it was written by whoever is to the right of it`},
		{"192.0.2.1", "192.168.1.1", `192.0.2.1, trusted: a trusted proxy: its header is looked at, from the right
192.168.1.1 = 192.168.1.1: an address that no client on the Internet has: the event counts for nobody`},
	} {
		hops, _, _ := r.Trace(netip.MustParseAddr(tt.peer), []byte(tt.header))
		var lines []string
		for _, h := range hops {
			s := h.Text
			if h.Header && h.Addr.IsValid() {
				s += " = " + h.Addr.String()
			}
			if h.Trusted {
				s += ", trusted"
			}
			lines = append(lines, s+": "+h.Result)
		}
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("%s, %q\ngot  %s\nwant %s", tt.peer, tt.header, got, tt.want)
		}
	}
}

func TestResolveManyHops(t *testing.T) {
	r := NewResolver(prefixes("10.0.0.0/8"))
	header := "198.51.100.1" + strings.Repeat(", 10.0.0.1", 10000)
	client, how := r.Resolve(netip.MustParseAddr("10.0.0.2"), []byte(header))
	if client.String() != "198.51.100.1" || how != Forwarded {
		t.Errorf("got %v (%s)", client, how)
	}
}

// Whatever the header holds: a client that comes out of it is never trusted
// infrastructure and never an address that is no client; prepending text to
// the header, which is what a stranger can do, never changes the outcome once
// a client or its absence has been found.
func FuzzResolve(f *testing.F) {
	r := NewResolver(prefixes("10.0.0.0/8", "fd00::/8"))
	f.Add("198.51.100.1, 10.0.0.1", "203.0.113.1")
	f.Add(`"[2001:db8::1]:80",fd00::1`, "x")
	peer := netip.MustParseAddr("10.9.9.9")
	f.Fuzz(func(t *testing.T, header, forged string) {
		client, how := r.Resolve(peer, []byte(header))
		checkTrace(t, r, peer, header, client, how)
		switch how {
		case Forwarded:
			if r.Trusted(client) || !canBeClient(client) || client.Zone() != "" || client.Is4In6() {
				t.Fatalf("%q gave %v", header, client)
			}
		case Infrastructure:
			if client != peer {
				t.Fatalf("%q gave %v", header, client)
			}
		case Nobody:
			if client.IsValid() {
				t.Fatalf("%q gave nobody, %v", header, client)
			}
		case Direct:
			t.Fatalf("%q: direct behind a proxy", header)
		}
		if how != Infrastructure {
			again, how2 := r.Resolve(peer, []byte(forged+","+header))
			if again != client || how2 != how {
				t.Fatalf("%q in front of %q turned %v (%s) into %v (%s)", forged, header, client, how, again, how2)
			}
		}
	})
}

func TestResolveAllocatesNothing(t *testing.T) {
	r := NewResolver(prefixes("10.0.0.0/8"))
	peer, header := netip.MustParseAddr("10.0.0.1"), []byte(`\x22[2001:db8::66]:1\x22, 10.0.0.9, x`)
	if n := testing.AllocsPerRun(100, func() { r.Resolve(peer, header) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
