// Package lists holds address ranges that providers publish, by the
// provider's name, and reads the files in which they do so.
package lists

import (
	"embed"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// data has a file for each provider: what its ranges are, where they are
// published and on which day they were copied, then the ranges themselves. They
// are read when somebody asks for them, so that no command pays for lists that
// it doesn't use.
//
//go:embed data/*.txt
var data embed.FS

// Kind says what a provider's machines do.
type Kind string

// The kinds of providers.
const (
	Proxy   Kind = "proxy"   // they pass on requests of others
	Crawler Kind = "crawler" // they read what is published
	Monitor Kind = "monitor" // they look whether a site works
)

// Provider is somebody who publishes where requests of his come from, and what
// he has published.
type Provider struct {
	Name    string
	What    string // whose machines these are
	Kind    Kind
	Sources []string // addresses at which the ranges are published
	Date    string   // day of the copy, as YYYY-MM-DD
	Fetched bool     // it was fetched, not built in; see [Current]

	// Prefixes are masked and unmapped, sorted with IPv4 first, and as few as
	// can be.
	Prefixes []netip.Prefix
}

// Names returns the names that Lookup knows, sorted.
func Names() []string {
	entries, err := data.ReadDir("data")
	if err != nil {
		panic("lists: " + err.Error()) // it is part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".txt")
	}
	slices.Sort(names) // with their suffix they were sorted otherwise
	return names
}

// Lookup returns the provider of a name. It is the caller's. It reports false
// for a name that is no provider; names are lower case.
func Lookup(name string) (*Provider, bool) {
	text, err := data.ReadFile("data/" + name + ".txt")
	if err != nil {
		return nil, false
	}
	return parse(name, string(text)), true
}

// Proxies returns the providers whose machines pass on requests of others.
func Proxies() []*Provider {
	var out []*Provider
	for _, name := range Names() {
		if p, ok := Lookup(name); ok && p.Kind == Proxy {
			out = append(out, p)
		}
	}
	return out
}

// parse reads a file of ours. A mistake in it is a mistake in the program, found
// by the tests.
func parse(name, text string) *Provider {
	p := &Provider{Name: name}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		comment, ok := strings.CutPrefix(line, "# ")
		if !ok {
			p.Prefixes = append(p.Prefixes, parsePrefix(name, line))
			continue
		}
		switch key, value, _ := strings.Cut(comment, ": "); key {
		case "kind":
			p.Kind = Kind(value)
		case "source":
			p.Sources = append(p.Sources, value)
		case "copied":
			p.Date = value
		case "what":
			p.What = value
		default:
			panic(fmt.Sprintf("lists: %s: %s", name, line))
		}
	}
	return p
}

func parsePrefix(name, text string) netip.Prefix {
	if !strings.Contains(text, "/") {
		a := netip.MustParseAddr(text)
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		panic(fmt.Sprintf("lists: %s: %v", name, err))
	}
	return p
}
