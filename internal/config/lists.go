package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tailban/tailban/internal/lists"
)

// How often published ranges may be fetched.
const (
	minRefresh = time.Hour
	maxRefresh = 30 * day
)

// maxSources is how many addresses a provider's ranges may be published at.
const maxSources = 8

// trustedProxies is the key of those who are believed.
const trustedProxies = "trusted_proxies"

// readLists reads [lists], which is about all providers, and [lists.NAME].
func readLists(top *section, c *Config) {
	s, ok := top.sub("lists")
	if !ok {
		return
	}
	if n, ok := s.get("refresh"); ok {
		c.Refresh, _ = n.duration(minRefresh, maxRefresh)
	}
	c.sources = map[string][]string{}
	for _, name := range s.doc.pos.inOrder(s.path, s.table) {
		if slices.Contains(s.asked, name) {
			continue
		}
		if _, known := lists.Lookup(name); !known {
			candidates := append(lists.Names(), s.asked...)
			if near, ok := nearest(name, candidates); ok {
				s.doc.bad(s.path.key(name), "unknown provider or key, did you mean %q?", near)
			} else {
				s.doc.bad(s.path.key(name), "unknown provider or key%s", suggestProvider(""))
			}
			continue
		}
		n := s.node(name, s.table[name])
		t, ok := n.section()
		if !ok {
			continue
		}
		if n, ok := t.get("source"); ok {
			c.sources[name] = n.sourceURLs()
		} else {
			t.missing("source", "required: where its ranges are published")
		}
		t.finish()
	}
}

// sourceURLs reads where ranges are published.
func (n node) sourceURLs() []string {
	urls := n.texts(func(item node, s string) bool {
		err := lists.CheckSource(s)
		if err != nil {
			item.bad("%v", err)
		}
		return err == nil
	})
	if len(urls) > maxSources {
		n.bad("has %d addresses: %d at most", len(urls), maxSources)
	}
	if list, ok := n.v.([]any); ok && len(list) == 0 {
		n.bad("must not be empty")
	}
	return urls
}

// provider is a provider as it is used: with what was fetched, if that is wanted
// and there is something.
func (n node) provider(built *lists.Provider, list addressList, c *Config) Provider {
	strict := list.key == trustedProxies || slices.ContainsFunc(c.Providers, func(p Provider) bool {
		return p.Name == built.Name && p.Key == trustedProxies // which is read first
	})
	used, waiting := built, []netip.Prefix(nil)
	if c.Refresh > 0 {
		stored, err := lists.Load(c.StateDir, built.Name)
		if err != nil {
			n.warn("what was fetched of %s can't be used, so its ranges are those built in, as of %s: %v", built.Name, built.Date, err)
		}
		used = stored.InUse(built, strict)
		waiting = stored.Added(built, used)
	}
	return Provider{
		Key: list.key, Name: built.Name, Prefixes: used.Prefixes, Snapshot: used.Date, Fetched: used.Fetched, Waiting: waiting,
	}
}

// RefreshedList is a provider whose ranges are fetched.
type RefreshedList struct {
	Name    string
	Sources []string
	Strict  bool // it is in trusted_proxies, too
}

// Refreshed returns the providers whose ranges are fetched, by name.
func (c *Config) Refreshed() []RefreshedList {
	var out []RefreshedList
	if c.Refresh == 0 {
		return nil
	}
	for _, p := range c.Providers {
		i := slices.IndexFunc(out, func(l RefreshedList) bool { return l.Name == p.Name })
		if i < 0 {
			i = len(out)
			out = append(out, RefreshedList{Name: p.Name, Sources: c.Sources(p.Name)})
		}
		out[i].Strict = out[i].Strict || p.Key == trustedProxies
	}
	slices.SortFunc(out, func(a, b RefreshedList) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Sources returns where a provider's ranges are published.
func (c *Config) Sources(provider string) []string {
	if own := c.sources[provider]; len(own) > 0 {
		return own
	}
	p, _ := lists.Lookup(provider)
	return p.Sources
}

// WaitingProxies returns the ranges that providers in trusted_proxies would have
// besides. They are not believed, but as they are likely proxies they are not to
// be banned either.
func (c *Config) WaitingProxies() []netip.Prefix {
	var out []netip.Prefix
	for _, p := range c.Providers {
		if p.Key == trustedProxies {
			out = append(out, p.Waiting...)
		}
	}
	return out
}

// Again reads the same text again, with the same files of addresses, and with the
// ranges of providers as they are stored now.
func (c *Config) Again() (*Config, error) {
	again, err := parse(c.doc.name, []byte(c.doc.text), c.doc.env, c.doc.lists)
	if err == nil && c.Observe {
		again.ObserveAll()
	}
	return again, err
}

// warnSources is about sources that are never asked.
func warnSources(doc *document, c *Config) {
	for name := range c.sources {
		at := keyPath("lists", name, "source")
		switch {
		case c.Refresh == 0:
			doc.warn(at, "nothing is fetched without lists.refresh")
		case !slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Name == name }):
			doc.warn(at, "%s is in no list of addresses, so it isn't fetched", name)
		}
	}
}
