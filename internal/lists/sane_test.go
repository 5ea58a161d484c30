package lists

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// What a publisher can't mean is refused, and with it all that he sent.
func TestRanges(t *testing.T) {
	const good = "20.0.0.0/24\n"
	for _, tt := range []struct{ name, text, want string }{
		{"as few as can be", "20.0.1.0/24\n20.0.0.0/24\n20.0.0.7\n2400::/32\n", "[20.0.0.0/23 2400::/32]"},
		{"mapped", "::ffff:20.0.0.1\n", "[20.0.0.1/32]"},
		{"nothing", "# soon\n", "it has no ranges"},
		{"a page", "<!doctype html>\n", `line 1: "<!doctype html>" is no address and no range`},
		{"cut off", good + "20.0.\n", `line 2: "20.0." is no address and no range`},
		{"everything", good + "0.0.0.0/0\n", "line 2: 0.0.0.0/0 is every address there is"},
		{"everything of IPv6", good + "::/0\n", "line 2: ::/0 is every address there is"},
		{"half of everything", good + "0.0.0.0/1\n", "line 2: 0.0.0.0/1 is too wide: /8 at most"},
		{"wide IPv6", good + "2400::/12\n", "line 2: 2400::/12 is too wide: /16 at most"},
		{"bits behind the mask", good + "20.0.0.1/24\n", "line 2: 20.0.0.1/24 has bits set behind the mask"},
		{"private", good + "10.1.0.0/16\n", "line 2: 10.1.0.0/16 has addresses that are nobody's on the Internet"},
		{"private inside", good + "172.0.0.0/8\n", "line 2: 172.0.0.0/8 has addresses that are nobody's on the Internet"},
		{"loopback", good + "127.0.0.1\n", "line 2: 127.0.0.1/32 has addresses that are nobody's on the Internet"},
		{"carrier NAT", good + "100.64.0.0/16\n", "line 2: 100.64.0.0/16 has addresses that are nobody's on the Internet"},
		{"multicast", good + "224.0.0.0/8\n", "line 2: 224.0.0.0/8 has addresses that are nobody's on the Internet"},
		{"unique local", good + "fd00::/16\n", "line 2: fd00::/16 has addresses that are nobody's on the Internet"},
		{"link-local", good + "fe80::/64\n", "line 2: fe80::/64 has addresses that are nobody's on the Internet"},
		{"for documents", good + "2001:db8::/64\n", "line 2: 2001:db8::/64 has addresses that are nobody's on the Internet"},
		{"zone", good + "2400::1%eth0\n", `line 2: "2400::1%eth0" is no address and no range`},
	} {
		f, err := Read(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		ranges, err := f.Ranges()
		got := fmt.Sprint(ranges)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want || err != nil && ranges != nil {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	var many strings.Builder
	for i := range MaxEntries + 1 {
		fmt.Fprintf(&many, "20.%d.%d.%d\n", i>>14, i>>7&127, 2*(i&127))
	}
	f, err := Read(many.String())
	if err != nil {
		t.Fatal(err)
	}
	if ranges, err := f.Ranges(); ranges != nil || err == nil || err.Error() != "it has 20001 ranges: 20000 at most" {
		t.Errorf("%d ranges, %v", len(ranges), err)
	}
}

// single are n addresses that aren't next to each other.
func single(n int) (out []netip.Prefix) {
	for i := range n {
		out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, 0, byte(i >> 7), byte(2 * (i & 127))}), 32))
	}
	return out
}

func TestLarge(t *testing.T) {
	wide := prefixes("104.16.0.0/12", "172.64.0.0/13", "2606:4700::/32")
	for _, tt := range []struct {
		name          string
		before, after []netip.Prefix
		want          string
	}{
		{"the same", single(4), single(4), ""},
		{"cut in another way", prefixes("20.0.0.0/24"), prefixes("20.0.0.0/25", "20.0.0.128/25"), ""},
		{"half more", single(4), single(6), ""},
		{"more than half more", single(4), single(7), "3 ranges are new, of 4: more than half"},
		{"half less", single(4), single(2), ""},
		{"more than half less", single(5), single(2), "3 ranges are gone, of 5: more than half"},
		{"others", single(4), prefixes("20.9.0.0/32", "20.9.0.2/32", "20.9.0.4/32", "20.9.0.6/32"), "4 ranges are new, of 4: more than half"},
		{"one /9 among five hundred addresses", single(500), append(single(500), prefixes("90.0.0.0/9")...),
			"the IPv4 addresses that are new are 16777 times those before"},
		{"one /9 beside a /12 and a /13", wide, append(slices.Clone(wide), prefixes("90.0.0.0/9")...), "the IPv4 addresses that are new are 533%"},
		{"many addresses beside a /12", wide, append(slices.Clone(wide), single(200)...), "200 ranges are new, of 3: more than half"},
		{"a range of IPv4 beside much of IPv6", prefixes("20.0.0.0/30", "2400::/32", "2400:2::/32"), prefixes("20.0.0.0/24", "2400::/32", "2400:2::/32"),
			"more than half"}, // of the ranges, as cut
		{"one more range of IPv4, as wide as that of IPv6", prefixes("20.0.0.0/30", "2400::/32"), prefixes("20.0.0.0/29", "2400::/32"), "the IPv4 addresses that are new are 100%"},
		{"IPv6 where there was none", single(10), append(single(10), prefixes("2400::1/128")...), "there were no IPv6 ranges before"},
		{"no IPv6 any more", append(single(10), prefixes("2400::1/128")...), single(10), "the IPv6 addresses that are gone are 100%"},
		{"the widest is gone", append(single(10), prefixes("90.0.0.0/16")...), single(10), "the IPv4 addresses that are gone are 100%"},
		{"nothing is left", single(2), nil, "2 ranges are gone"},
	} {
		got := Compare(tt.before, tt.after).Large(tt.before)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What Compare says is so, address by address; and however ranges are cut, it says
// the same.
func TestCompareProperty(t *testing.T) {
	within := func(list []netip.Prefix, a netip.Addr) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	some := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
		a := netip.AddrFrom4([4]byte{20, 0, 0, rapid.Byte().Draw(t, "last")})
		return netip.PrefixFrom(a, rapid.IntRange(25, 32).Draw(t, "bits")).Masked()
	}), 0, 8)
	rapid.Check(t, func(t *rapid.T) {
		before, after := some.Draw(t, "before"), some.Draw(t, "after")
		c := Compare(before, after)
		added, removed := 0, 0
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{20, 0, 0, byte(i)})
			was, is := within(before, a), within(after, a)
			if within(c.Added, a) != (is && !was) || within(c.Removed, a) != (was && !is) {
				t.Fatalf("%v: was %v, is %v, of %+v", a, was, is, c)
			}
			if is && !was {
				added++
			}
			if was && !is {
				removed++
			}
		}
		if int(addresses(c.Added, 32)) != added || int(addresses(c.Removed, 32)) != removed {
			t.Fatalf("counted %v and %v, want %d and %d", addresses(c.Added, 32), addresses(c.Removed, 32), added, removed)
		}
		if all := addresses(Tidy(before), 32); float64(2*max(added, removed)) > all && c.Large(before) == "" {
			t.Fatalf("%d added, %d removed of %v, and that is not large", added, removed, all)
		}
		var cut []netip.Prefix
		for _, p := range after {
			for a := p.Addr(); p.Contains(a); a = a.Next() {
				cut = append(cut, netip.PrefixFrom(a, 32))
			}
		}
		if got := Compare(before, cut); !slices.Equal(got.Added, c.Added) || !slices.Equal(got.Removed, c.Removed) {
			t.Fatalf("cut in another way: %+v, want %+v", got, c)
		}
	})
}

func TestWidest(t *testing.T) {
	got := fmt.Sprint(Widest(prefixes("20.0.0.0/32", "20.1.0.0/24", "2400::/64", "2400:1::/48", "90.0.0.0/9"), 3))
	if want := "[90.0.0.0/9 2400:1::/48 20.1.0.0/24]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckSource(t *testing.T) {
	for text, good := range map[string]bool{
		"https://mirror.example.net/a.json": true, "https://192.0.2.1:8443/": true, "http://127.0.0.1:80/x": true, "http://[::1]/x?y=z": true,
		"http://mirror.example.net/a.json": false, "http://localhost/": false, "http://127.0.0.1.example.net/": false, "ftp://127.0.0.1/": false,
		"https://": false, "https:///x": false, "mirror.example.net": false, "file:///etc/passwd": false, "https://u:p@mirror.example.net/": false,
		"https://mirror.example.net/#x": false, "https:mirror": false, "": false, "https://a b/": false,
	} {
		if err := CheckSource(text); (err == nil) != good {
			t.Errorf("CheckSource(%q) = %v", text, err)
		}
	}
}
