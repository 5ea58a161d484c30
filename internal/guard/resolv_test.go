package guard

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNameServers(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"usual", "# made by hand\nsearch example.net\nnameserver 192.0.2.53\nnameserver 2001:db8::53\noptions edns0\n", "192.0.2.53 2001:db8::53"},
		{"stub of systemd-resolved", "nameserver 127.0.0.53\noptions edns0 trust-ad\n", ""},
		{"scoped, by name and by number", "nameserver fe80::1%eth0\nnameserver fe80::2%2\n", "fe80::1 fe80::2"},
		{"mapped", "nameserver ::ffff:192.0.2.1\n", "192.0.2.1"},
		{"blanks, tabs, more behind it", "nameserver\t \t192.0.2.1  # mine\r\n", "192.0.2.1"},
		{"no line feed at the end", "nameserver 192.0.2.1", "192.0.2.1"},
		{"comments, words that begin so", "#nameserver 192.0.2.1\n;nameserver 192.0.2.2\nnameservers 192.0.2.3\n nameserver 192.0.2.4\n", ""},
		{"nothing, names, garbage", "nameserver\nnameserver \nnameserver ns.example\nnameserver 192.0.2.256\nnameserver \x00\xff\n", ""},
		{"one twice", "nameserver 192.0.2.1\nnameserver 192.0.2.1\n", "192.0.2.1"},
		{"none given", "nameserver 0.0.0.0\nnameserver ::\nnameserver ::1\n", ""},
		{"empty", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := texts(nameServers([]byte(tt.text))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "nameserver 10.0.%d.%d\n", i/250, i%250+1)
	}
	if got := len(nameServers([]byte(many.String()))); got != maxResolvers {
		t.Errorf("%d name servers, want %d", got, maxResolvers)
	}
}

func TestLinkServers(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"as networkd writes it", "ADMIN_STATE=configured\nDNS=198.51.100.53 fe80::53 2001:db8:1::53\nNTP=198.51.100.1\nDOMAINS=\n", "198.51.100.53 fe80::53 2001:db8:1::53"},
		{"ports and names", "DNS=198.51.101.53:5353#ns.example [2001:db8:2::53]:853#ns.example 2001:db8:2::54#a.b", "198.51.101.53 2001:db8:2::53 2001:db8:2::54"},
		{"interfaces", "DNS=fe80::1%2 [fe80::2]:53%eth0#ns.example\n", "fe80::1 fe80::2"},
		{"here, nowhere, twice", "DNS=127.0.0.1:5353 ::1 0.0.0.0 192.0.2.1 192.0.2.1:54\n", "192.0.2.1"},
		{"nothing, garbage", "DNS=\nDNS=a # % : [ []:1 %1 \x00\nXDNS=192.0.2.1\n DNS=192.0.2.1\n", ""},
		{"many", "DNS=" + strings.Repeat("192.0.2.1 ", 1000) + "\n", "192.0.2.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := texts(linkServers([]byte(tt.text))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func texts(addrs []netip.Addr) string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

// Servers of all files are taken together. A file that is missing, or no
// file, or larger than it may be, keeps nobody.
func TestResolversOfFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("resolv.conf"), "nameserver 127.0.0.53\nnameserver 198.18.7.1\n")
	write(t, in("uplink"), "nameserver 198.18.7.1\nnameserver fe80::1%eth0\nnameserver 2001:db8:1::53\n")
	write(t, in("long"), strings.Repeat("#\n", maxResolv/2)+"nameserver 198.18.7.3\n")
	if err := unix.Mkfifo(in("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	links := in("links")
	if err := os.Mkdir(links, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(links, "3"), "DNS=198.18.7.1 198.18.8.53:5353\n")
	if err := unix.Mkfifo(filepath.Join(links, "4"), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := Host(Paths{Links: links, Resolv: []string{in("resolv.conf"), in("none"), dir, in("pipe"), in("long"), in("uplink")}})
	if err != nil {
		t.Skipf("no rtnetlink here: %v", err)
	}
	var got []string
	for _, e := range entries {
		if e.Reason == "resolver" {
			got = append(got, e.Prefix.String())
		}
	}
	if want := "198.18.7.1/32 fe80::1/128 2001:db8:1::53/128 198.18.8.53/32"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	s := New(nil)
	s.Update(entries)
	for addr, want := range map[string]string{
		"198.18.7.1": "resolver", "2001:db8:1::53": "resolver", "fe80::1": "resolver", "127.0.0.53": "loopback", "198.18.7.3": "",
	} {
		a := netip.MustParseAddr(addr)
		if reason, _ := s.Protected(netip.PrefixFrom(a, a.BitLen())); reason != want {
			t.Errorf("%s: %q, want %q", addr, reason, want)
		}
	}
}

func FuzzResolvConf(f *testing.F) {
	f.Add([]byte("search example.net\nnameserver 192.0.2.53\nnameserver fe80::1%eth0\n"))
	f.Add([]byte("DNS=198.51.101.53:5353#ns.example [fe80::53]:853%3#ns.example\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for keyword, read := range map[string]func([]byte) []netip.Addr{"nameserver": nameServers, "DNS=": linkServers} {
			got := read(data)
			if len(got) > maxResolvers {
				t.Errorf("%d name servers", len(got))
			}
			for _, a := range got {
				if !a.IsValid() || a.Zone() != "" || a.Is4In6() || a.IsLoopback() || !strings.Contains(string(data), keyword) {
					t.Errorf("got %v", a)
				}
			}
		}
	})
}
