package prove

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/tailban/tailban/detector"
)

var results = [...]string{detector.Unknown: "unknown", detector.Proved: "proved", detector.Disproved: "disproved"}

func say(a detector.Answer) string {
	return strings.TrimSpace(results[a.Result] + " " + strings.Join(a.Names, " ") + a.Reason)
}

// What a DNS server says, and what that proves.
func TestLook(t *testing.T) {
	s := newServer(t)
	s.ptr("66.249.66.1", "crawl-66-249-66-1.googlebot.com")
	s.host("crawl-66-249-66-1.googlebot.com", "66.249.66.1")
	s.ptr("2001:db8::1", "Geo.Crawl.GoogleBot.com")
	s.host("geo.crawl.googlebot.com", "2001:db8::2", "2001:db8::1", "192.0.2.1")
	s.ptr("203.0.113.1", "crawl-203-0-113-1.googlebot.com") // forged: nobody at Google has heard of it
	s.ptr("203.0.113.2", "crawl-66-249-66-1.googlebot.com") // forged, by a name that there is
	s.ptr("203.0.113.3", "evilgooglebot.com")
	s.host("evilgooglebot.com", "203.0.113.3")
	s.ptr("203.0.113.4", "googlebot.com.evil.example")
	s.host("googlebot.com.evil.example", "203.0.113.4")
	s.fail("PTR "+reversed("203.0.113.6"), dns.RcodeServerFailure)
	s.ptr("203.0.113.7", "down.googlebot.com")
	s.fail("A down.googlebot.com.", dns.RcodeServerFailure)
	s.ptr("203.0.113.8", "host.evil.example", "b.googlebot.com")
	s.host("b.googlebot.com", "203.0.113.8")
	s.ptr("203.0.113.9", "googlebot.com")
	s.host("googlebot.com", "203.0.113.9")
	s.ptr("203.0.113.10", "down.googlebot.com", "c.googlebot.com")
	s.host("c.googlebot.com", "203.0.113.10")
	s.ptr("203.0.113.11", "1.evil.example", "2.evil.example", "3.evil.example")
	s.ptr("203.0.113.12", "v6.googlebot.com") // of the other family
	s.host("v6.googlebot.com", "2001:db8::12")
	s.fail("PTR "+reversed("203.0.113.13"), dns.RcodeRefused)
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprintf("n%d.googlebot.com", i))
	}
	s.ptr("203.0.113.14", many...)
	s.host("n8.googlebot.com", "203.0.113.14")
	p := New(Options{Resolver: s.resolver()})
	for _, tt := range []struct{ client, want string }{
		{"66.249.66.1", "proved crawl-66-249-66-1.googlebot.com"},
		{"2001:db8::1", "proved geo.crawl.googlebot.com"},
		{"203.0.113.1", "disproved its name crawl-203-0-113-1.googlebot.com does not have its address"},
		{"203.0.113.2", "disproved its name crawl-66-249-66-1.googlebot.com does not have its address"},
		{"203.0.113.3", "disproved its name evilgooglebot.com is in none of the domains"},
		{"203.0.113.4", "disproved its name googlebot.com.evil.example is in none of the domains"},
		{"203.0.113.5", "disproved it has no name"},
		{"203.0.113.6", "unknown its name can't be looked up: server misbehaving"},
		{"203.0.113.7", "unknown the addresses of its name down.googlebot.com can't be looked up: server misbehaving"},
		{"203.0.113.8", "proved b.googlebot.com"},
		{"203.0.113.9", "proved googlebot.com"},
		{"203.0.113.10", "proved c.googlebot.com"},
		{"203.0.113.11", "disproved its name 1.evil.example (and 2 more) is in none of the domains"},
		{"203.0.113.12", "disproved its name v6.googlebot.com does not have its address"},
		{"203.0.113.13", "unknown its name can't be looked up: server misbehaving"},
		{"203.0.113.14", "disproved its name n0.googlebot.com (and 3 more) does not have its address"},
	} {
		if got := say(p.look(t.Context(), netip.MustParseAddr(tt.client), []string{"google.com", "googlebot.com"})); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.client, got, tt.want)
		}
	}
	if n := s.times("A evilgooglebot.com."); n != 0 {
		t.Errorf("a name outside of the domains was looked up %d times", n)
	}
	for i, name := range many {
		if n := s.times("A " + name + "."); n != min(1, max(0, maxNames-i)) {
			t.Errorf("%s was looked up %d times", name, n)
		}
	}
}

// fake is a resolver without a network.
type fake struct {
	addr func(ctx context.Context, addr string) ([]string, error)
	ip   func(ctx context.Context, name string) ([]netip.Addr, error)
}

func (f fake) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return f.addr(ctx, addr)
}
func (f fake) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f.ip(ctx, host)
}

// Names are text of strangers: what is none doesn't count, and is shown nowhere.
func TestLookDistrustsNames(t *testing.T) {
	long := strings.Repeat("a.", 121)
	for _, tt := range []struct {
		names []string
		err   error
		want  string
	}{
		{[]string{"a\x1b[2J.googlebot.com."}, nil, "disproved it has no name"},
		{[]string{"a b.googlebot.com.", "ok.evil.example."}, nil, "disproved its name ok.evil.example is in none of the domains"},
		{[]string{long + "googlebot.com."}, nil, "disproved it has no name"},
		{[]string{"..googlebot.com."}, nil, "disproved it has no name"},
		{[]string{"é.googlebot.com."}, nil, "disproved it has no name"},
		{[]string{"A.GoogleBot.com.", "a.googlebot.com"}, errors.New("some were malformed"), "proved a.googlebot.com"},
		{nil, errors.New("what\xff" + strings.Repeat("x", 999)), "unknown its name can't be looked up: what?" + strings.Repeat("x", 999)},
		{nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}, "unknown its name can't be looked up: no answer in time"},
		{nil, context.DeadlineExceeded, "unknown its name can't be looked up: no answer in time"},
	} {
		p := New(Options{Resolver: fake{
			addr: func(context.Context, string) ([]string, error) { return tt.names, tt.err },
			ip: func(_ context.Context, name string) ([]netip.Addr, error) {
				if name != "a.googlebot.com." {
					t.Errorf("looked up %q", name)
				}
				return []netip.Addr{netip.MustParseAddr("::ffff:192.0.2.1")}, nil
			},
		}})
		got := p.look(t.Context(), netip.MustParseAddr("192.0.2.1"), []string{"googlebot.com"})
		if text := say(got); text != tt.want && (len(text) < maxReason || len(got.Reason) > maxReason+len("…") || !strings.HasPrefix(tt.want, text[:100])) {
			t.Errorf("%q, %v: %q, want %q", tt.names, tt.err, text, tt.want)
		}
	}
}

// FuzzIsName checks that whatever is taken for a name is harmless and in one form.
func FuzzIsName(f *testing.F) {
	for _, s := range []string{"", ".", "a", "a.b", "a..b", "A.b", "-_.x", "a\n", strings.Repeat("a.", 127) + "a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !isName(s) {
			return
		}
		if strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_.", r) }) ||
			len(s) > 253 || slices.Contains(strings.Split(s, "."), "") {
			t.Errorf("%q is taken for a name", s)
		}
	})
}
