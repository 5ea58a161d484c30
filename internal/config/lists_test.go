package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/lists"
)

// store has ranges of a provider fetched, in a state folder.
func store(t *testing.T, dir, name string, strict bool, more ...string) {
	t.Helper()
	built, _ := lists.Lookup(name)
	ranges := slices.Clone(built.Prefixes)
	for _, s := range more {
		ranges = append(ranges, netip.MustParsePrefix(s))
	}
	s := &lists.Stored{Name: name, Latest: []lists.Fetched{{URL: "https://x.example/", Ranges: ranges}}, Checked: time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)}
	s.Settle(built, strict, s.Checked)
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
}

func refreshing(t *testing.T, dir, top, more string) *Config {
	t.Helper()
	c, err := Parse("jails.toml", fmt.Appendf(nil, "%s\nstate_dir = %q\nlists.refresh = \"1d\"\n%s%s", top, dir, base, more), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A provider that is in trusted_proxies gets no addresses unasked, wherever else
// it is used; one that isn't does.
func TestFetchedRanges(t *testing.T) {
	dir := t.TempDir()
	store(t, dir, "fastly", true, "20.0.0.0/24")
	store(t, dir, "googlebot", false, "20.0.0.0/24")
	c := refreshing(t, dir, `trusted_proxies = ["fastly", "10.0.0.0/8"]
allow = ["fastly", "googlebot"]`, "[wanted.search]\nagent = \"x\"\nfrom = [\"googlebot\", \"bingbot\"]\n[lists.bingbot]\nsource = [\"https://x.example/4\", \"https://x.example/6\"]\n")
	added := netip.MustParsePrefix("20.0.0.0/24")
	for _, p := range c.Providers {
		got := fmt.Sprint(p.Name, " ", p.Fetched, slices.Contains(p.Prefixes, added), p.Waiting)
		want := map[string]string{
			"fastly": "fastly false false [20.0.0.0/24]", "googlebot": "googlebot true true []", "bingbot": "bingbot false false []",
		}[p.Name]
		if got != want {
			t.Errorf("%s: got %s, want %s", p.Key, got, want)
		}
		if date := "2099-01-02"; p.Fetched != (p.Snapshot == date) {
			t.Errorf("%s is of %s", p.Name, p.Snapshot)
		}
	}
	if got := c.WaitingProxies(); !slices.Equal(got, []netip.Prefix{added}) {
		t.Errorf("waiting: %v", got)
	}
	if !slices.Contains(c.Allow, added) || slices.Contains(c.TrustedProxies, added) {
		t.Errorf("allowed: %v; trusted: %v", c.Allow, c.TrustedProxies)
	}
	of := func(name string) []string {
		p, _ := lists.Lookup(name)
		return p.Sources
	}
	want := []RefreshedList{
		{"bingbot", []string{"https://x.example/4", "https://x.example/6"}, false}, {"fastly", of("fastly"), true}, {"googlebot", of("googlebot"), false},
	}
	if got := c.Refreshed(); !reflect.DeepEqual(got, want) {
		t.Errorf("refreshed: %+v, want %+v", got, want)
	}
}

// What runs is read again with new ranges, and with nothing else that has changed
// since.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.list")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("192.0.2.1\n")
	c := refreshing(t, dir, fmt.Sprintf("allow = [\"googlebot\", \"file:%s\"]", file), "")
	c.ObserveAll()
	write("half a")
	store(t, dir, "googlebot", false, "20.0.0.0/24")
	again, err := c.Again()
	if err != nil {
		t.Fatal(err)
	}
	added := netip.MustParsePrefix("20.0.0.0/24")
	if slices.Contains(c.Allow, added) || !slices.Contains(again.Allow, added) || !slices.Contains(again.Allow, netip.MustParsePrefix("192.0.2.1/32")) {
		t.Errorf("allowed were %v, and are %v", c.Allow, again.Allow)
	}
	if !again.Observe || !again.Jails[0].Observe || again.StateDir != c.StateDir || again.Refresh != 24*time.Hour {
		t.Errorf("%+v", again)
	}
	third, err := again.Again()
	if err != nil || !reflect.DeepEqual(third.Providers, again.Providers) || !reflect.DeepEqual(third.Allow, again.Allow) {
		t.Errorf("again: %v, %v", third, err)
	}
}
