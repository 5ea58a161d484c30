package cli

import (
	"fmt"
	"strings"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
)

// ofWanted reports whether a list is of a wanted machine.
func ofWanted(key string) bool { return strings.HasPrefix(key, "wanted.") }

// proofs tell how a machine is known.
func proofs(c *config.Config, m *detector.Wanted) []string {
	if len(m.From) == 0 && len(m.Domains) == 0 {
		return []string{"known by its agent alone, which anybody can send"}
	}
	key := "wanted." + m.Name + ".from"
	dates := map[string]string{}
	for _, l := range c.Providers {
		if l.Key == key {
			dates[l.Name] = l.Snapshot
		}
	}
	for _, l := range c.Lists {
		if l.Key == key {
			dates[l.Path] = l.Date
		}
	}
	var out []string
	for _, s := range m.From {
		text := "known by " + plural(len(s.Prefixes), "range")
		if s.Name != "" {
			text += " of " + s.Name
		}
		if date := dates[s.Name]; date != "" {
			text += ", as of " + date
		}
		out = append(out, text)
	}
	if len(m.Domains) > 0 {
		out = append(out, "known by names in "+strings.Join(m.Domains, " or ")+", looked up while the daemon runs")
	}
	return out
}

// passText tells how much a machine may do.
func passText(m *detector.Wanted) string {
	if m.Window == 0 {
		return "no limit"
	}
	return fmt.Sprintf("up to %d in %s", m.Limit, config.FormatDuration(m.Window))
}
