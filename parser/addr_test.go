package parser

import (
	"net/netip"
	"testing"
)

func TestParseAddr(t *testing.T) {
	for in, want := range map[string]string{
		"203.0.113.7":            "203.0.113.7",
		"2001:db8::7":            "2001:db8::7",
		"2001:DB8:0:0:0:0:0:7":   "2001:db8::7",
		"::ffff:203.0.113.7":     "203.0.113.7",
		"::ffff:cb00:7107":       "203.0.113.7",
		"fe80::1%eth0":           "fe80::1",
		"::":                     "::",
		"::1":                    "::1",
		"64:ff9b::203.0.113.7":   "64:ff9b::cb00:7107",
		"1:2:3:4:5:6:7::":        "1:2:3:4:5:6:7:0",
		"":                       "",
		"203.0.113":              "",
		"203.0.113.256":          "",
		"203.0.113.07":           "",
		"203.0.113.7.":           "",
		"203.0.113.7:80":         "",
		" 203.0.113.7":           "",
		"0x7f000001":             "",
		"2130706433":             "",
		"example.net":            "",
		"unknown":                "",
		"-":                      "",
		"[2001:db8::7]":          "",
		"2001:db8::7::1":         "",
		"2001:db8:7":             "",
		"fe80::1%":               "",
		"1:2:3:4:5:6:7:8:9":      "",
		"1:2:3:4:5:6:7:8::":      "",
		"1:2:3:4:5:6:7:1.2.3.4":  "",
		"203.0.113.7%eth0":       "",
		"2001:db8::7/64":         "",
		"unix:":                  "",
		"2001:db8::12345":        "",
		":1:2:3:4:5:6:7":         "",
		"1:2:3:4:5:6:7:":         "",
		"203.0.113.7\x00":        "",
		"::ffff:203.0.113.7%x":   "203.0.113.7",
		"::1.2.3.4.5":            "",
		"1:2:3:4:5:6:255.1.2.3":  "1:2:3:4:5:6:ff01:203",
		"1:2:3:4:5:6:7.1.2.3:80": "",
	} {
		got, ok := ParseAddr([]byte(in))
		if !ok {
			if want != "" {
				t.Errorf("ParseAddr(%q) refused, want %s", in, want)
			}
			continue
		}
		if got.String() != want {
			t.Errorf("ParseAddr(%q) = %s, want %q", in, got, want)
		}
	}
}

// The standard library is the oracle: same texts accepted, same address.
func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"203.0.113.7", "2001:db8::7", "::ffff:1.2.3.4", "fe80::1%eth0", "1:2:3:4:5:6:7:8", "1::2:3.4.5.6", "::", "1:2:3:4:5:6:7::", "::1:2:3:4:5:6:7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := ParseAddr([]byte(s))
		want, err := netip.ParseAddr(s)
		if len(s) > maxAddrText {
			if ok {
				t.Fatalf("%q accepted although too long", s)
			}
			return
		}
		if ok != (err == nil) {
			t.Fatalf("ParseAddr(%q) accepted: %v; netip: %v", s, ok, err)
		}
		if ok && got != want.Unmap().WithZone("") {
			t.Fatalf("ParseAddr(%q) = %v, netip %v", s, got, want)
		}
	})
}

func TestParseAddrAllocatesNothing(t *testing.T) {
	for _, s := range []string{"203.0.113.7", "2001:db8:1:2:3:4:5:6", "::ffff:1.2.3.4", "not an address"} {
		b := []byte(s)
		if n := testing.AllocsPerRun(100, func() { ParseAddr(b) }); n != 0 {
			t.Errorf("ParseAddr(%q): %v allocations", s, n)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "192.0.2.1/24": "192.0.2.1/24", "2001:db8::1": "2001:db8::1/128", "2001:db8::/32": "2001:db8::/32",
		"::ffff:192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.0/120": "192.0.2.0/24", "::ffff:0:0/95": "::ffff:0.0.0.0/95",
		"": "", "x": "", "192.0.2.1/33": "", "192.0.2.1:80": "", "fe80::1%eth0": "", "fe80::1%eth0/64": "",
	} {
		p, ok := ParsePrefix(in)
		if ok != (want != "") || ok && p.String() != want {
			t.Errorf("%q is read as %v, %v, want %q", in, p, ok, want)
		}
	}
}
