package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"
)

// Allowed ranges wider than these hold strangers, too.
const (
	wide4 = 16
	wide6 = 32
)

// warnWide is called while a list is read, as the ranges of a provider are not
// meant.
func (n node) warnWide(p netip.Prefix, list addressList) {
	if !list.allowed {
		return
	}
	wide := wide6
	if p.Addr().Is4() {
		wide = wide4
	}
	if p.Bits() < wide {
		n.warn("%s is wide: nobody in it is ever banned", p)
	}
}

// warnDenied is about addresses that are denied in vain.
func warnDenied(doc *document, c *Config) {
	if c.Deny == nil {
		return
	}
	var allow bart.Lite
	for _, p := range c.Allow {
		allow.Insert(p)
	}
	var vain []netip.Prefix
	for _, p := range c.Deny.From {
		if allow.LookupPrefix(p) {
			vain = append(vain, p)
		}
	}
	if len(vain) == 0 {
		return
	}
	what := vain[0].String()
	if n := len(vain) - 1; n > 0 {
		what += fmt.Sprintf(" and %d more", n)
	}
	doc.warn(keyPath("deny", "from"), "allowed as well, which goes first, so not denied: %s", what)
}

// warnForgotten is about ladders on which nobody gets beyond a step, as his
// offence is forgotten before that step's ban is over.
func warnForgotten(doc *document, c *Config) {
	check := func(at path, ladder []time.Duration, remember time.Duration) {
		i := slices.IndexFunc(ladder, func(d time.Duration) bool { return d >= remember })
		if len(ladder) > 1 && i >= 0 {
			doc.warn(at, "an offence is forgotten after %s, before its ban of %s is over: the next one begins with %s again",
				FormatDuration(remember), FormatDuration(ladder[i]), FormatDuration(ladder[0]))
		}
	}
	for _, j := range c.Jails {
		check(keyPath("jails", j.Name, "ban"), j.Ban, j.Remember)
	}
	if c.Deny != nil {
		check(keyPath("deny", "ban"), c.Deny.Ban, c.Deny.Remember)
	}
}
