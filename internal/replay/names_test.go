package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// names is a resolver of one machine's name and of somebody's who has forged it.
type names struct{ asked []string }

func (n *names) LookupAddr(_ context.Context, addr string) ([]string, error) {
	n.asked = append(n.asked, addr)
	switch addr {
	case "66.249.66.1", "203.0.113.9":
		return []string{"crawl-1.googlebot.com."}, nil
	case "203.0.113.10":
		return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	}
	return nil, &net.DNSError{IsNotFound: true}
}

func (n *names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("66.249.66.1")}, nil
}

// Names are looked up only if that is asked for. Without, whoever claims to be a
// machine is shown as banned, and that he may be it; with, each client is looked
// up once, and the summary groups those that prove it.
func TestNames(t *testing.T) {
	c := parse(t, `
[logs.site]
files = "/x"
format = "combined"
[jails.web]
limit = 2
window = "60s"
ban = "1h"
[jails.lies]
where = { false_crawler = true }
limit = 0
window = "60s"
ban = "1d"
[wanted.search]
agent = "Googlebot"
domains = ["google.com", "googlebot.com"]
`)
	var log strings.Builder
	for i := range 4 {
		for _, client := range []string{"66.249.66.1", "203.0.113.9", "203.0.113.10", "203.0.113.11"} {
			agent := "Googlebot/2.1"
			if client == "203.0.113.11" {
				agent = "curl"
			}
			fmt.Fprintf(&log, "%s - - [11/Oct/2026:10:00:0%d +0000] \"GET / HTTP/1.1\" 200 5 \"-\" %q\n", client, i, agent)
		}
	}
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		looks     bool
		decisions string
		summary   []string
		asked     string
	}{
		{false, "66.249.66.1 web search: its names are not looked up; 203.0.113.9 web search: its names are not looked up; 203.0.113.10 web search: its names are not looked up; 203.0.113.11 web : ",
			[]string{"spared        none\n", "3 bans of who may be a wanted machine: names are looked up by a daemon, and here with --dns\n", "(unless it is search: its names are not looked up)\n"}, "[]"},
		{true, "203.0.113.9 lies : ; 203.0.113.9 web : ; 203.0.113.10 web search: its name can't be looked up: server misbehaving; 203.0.113.11 web : ",
			[]string{"spared        3 of wanted machines\n", " search, by DNS, in googlebot.com: 3; clients: 1\n",
				"names looked up, as the DNS has them now: of 3 clients; in vain where 1 ban came of it\n"}, "[66.249.66.1 203.0.113.9 203.0.113.10]"},
	} {
		n := &names{}
		o := Options{Config: c, Files: []string{path}}
		if tt.looks {
			o.Resolver = n
		}
		var got []string
		for _, d := range decisions(t, o) {
			got = append(got, fmt.Sprintf("%s %s %s: %s", d.Client, d.Jail, d.Claims, d.Unproven))
		}
		if text := strings.Join(got, "; "); text != tt.decisions {
			t.Errorf("looks up %v: got %s\nwant %s", tt.looks, text, tt.decisions)
		}
		if text := fmt.Sprint(n.asked); text != tt.asked {
			t.Errorf("looks up %v: asked %s, want %s", tt.looks, text, tt.asked)
		}
		var out bytes.Buffer
		o.Out, o.Notes, o.Now = &out, io.Discard, time.Now
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.summary {
			if !strings.Contains(out.String(), want) {
				t.Errorf("looks up %v: no %q in\n%s", tt.looks, want, &out)
			}
		}
	}
}
