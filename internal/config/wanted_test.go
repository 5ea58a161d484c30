package config

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/lists"
)

// A machine that proves itself by addresses may have a limit; one that is only
// known by its agent must have one. Sources are kept apart, those that stand in
// the list itself are one.
func TestWanted(t *testing.T) {
	google, _ := lists.Lookup("googlebot")
	path := putList(t, "198.51.100.0/24\n")
	c := accept(t, base+fmt.Sprintf(`[wanted.bing]
agent = "bingbot"
domains = "Search.MSN.com."

[wanted.apple]
agent = "Applebot"
from = "203.0.113.0/24"
domains = ["applebot.apple.com", "lan"]
limit = 5
window = "1s"

[wanted.search]
agent = ["Googlebot", "Storebot-Google"]
from = ["203.0.113.7", "googlebot", "2001:db8::/48", "file:%s"]

[wanted.monitor]
agent = "Uptime"
agent_only = false
from = "203.0.113.0/24"
limit = 20
window = "60s"

[wanted.feed]
agent = "FeedReader"
agent_only = true
limit = 9
window = "1s"
`, path))
	want := []detector.Wanted{
		{Name: "bing", Agents: []string{"bingbot"}, Domains: []string{"search.msn.com"}},
		{Name: "apple", Agents: []string{"Applebot"}, From: []detector.Source{{Prefixes: prefixes("203.0.113.0/24")}}, Domains: []string{"applebot.apple.com", "lan"}, Limit: 5, Window: time.Second},
		{Name: "search", Agents: []string{"Googlebot", "Storebot-Google"}, From: []detector.Source{
			{Prefixes: prefixes("203.0.113.7/32", "2001:db8::/48")}, {Name: "googlebot", Prefixes: google.Prefixes}, {Name: path, Prefixes: prefixes("198.51.100.0/24")},
		}},
		{Name: "monitor", Agents: []string{"Uptime"}, From: []detector.Source{{Prefixes: prefixes("203.0.113.0/24")}}, Limit: 20, Window: time.Minute},
		{Name: "feed", Agents: []string{"FeedReader"}, Limit: 9, Window: time.Second},
	}
	if diff := cmp.Diff(want, c.Wanted, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(c.Providers) != 1 || c.Providers[0].Key != "wanted.search.from" || c.Providers[0].Snapshot != google.Date || len(c.Lists) != 1 || c.Lists[0].Key != "wanted.search.from" {
		t.Errorf("providers %+v, lists %+v", c.Providers, c.Lists)
	}
	if len(c.Allow)+len(c.TrustedProxies) > 0 {
		t.Error("who is wanted is allowed or trusted")
	}
}

// A file without addresses would let nobody pass.
func TestWantedFromAnEmptyFile(t *testing.T) {
	path := putList(t, "# later\n")
	check(t, base+fmt.Sprintf("[wanted.up]\nagent = \"Up\"\nfrom = \"file:%s\"\n", path), nil,
		fmt.Sprintf("jails.toml:9: wanted.up.from = %s: has no addresses: nobody could prove to be it", render(filePrefix+path)))
}

func TestFalseCrawlers(t *testing.T) {
	c := accept(t, base+"where = { false_crawler = true, not = { path = \"/x\" } }\n[jails.y]\nlimit = 1\nwindow = \"1s\"\nban = \"1s\"\nwhere = { not = { false_crawler = true } }\n")
	if w := c.Jails[0].Where; !w.Match.FalseCrawler || w.Not.FalseCrawler {
		t.Errorf("%+v", w)
	}
	if w := c.Jails[1].Where; w.Match.FalseCrawler || !w.Not.FalseCrawler {
		t.Errorf("%+v", w)
	}
}
