package config

import (
	"net/netip"
	"strings"

	"github.com/tailban/tailban/detector"
)

// maxDomains is how many domains a wanted machine may have.
const maxDomains = 16

// domains reads the domains that the names of a machine's addresses are in.
func (n node) domains() []string {
	var out []string
	once := unique{}
	n.nonEmptyTexts(func(item node, s string) bool {
		name := strings.ToLower(strings.TrimSuffix(s, "."))
		if !item.isDomain(name) || !once.first(item, name) {
			return false
		}
		out = append(out, name)
		return true
	})
	if len(out) > maxDomains {
		n.bad("has %d domains: %d at most", len(out), maxDomains)
	}
	return out
}

// isDomain reports whether text can be a domain, and records why not. What can
// only be another thing is told apart.
func (n node) isDomain(s string) bool {
	bare := strings.Trim(strings.TrimPrefix(s, "*"), ".")
	_, notAddress := netip.ParseAddr(s)
	_, notRange := netip.ParsePrefix(s)
	switch {
	case s == "":
		n.bad("must not be empty")
	case strings.Contains(s, "://") || strings.Contains(s, "/") && notRange != nil:
		n.bad("is no domain but an address of the web: the name alone, like %q", hostOf(s))
	case notAddress == nil || notRange == nil:
		n.bad("is no domain: addresses and ranges belong in from")
	case bare != s && isDomainName(bare):
		n.bad("%q holds all names below it as well: leave out the rest", bare)
	case !isDomainName(s):
		n.bad("is no domain: labels of letters, digits and hyphens with dots between them, like \"googlebot.com\"")
	case !fitsDNS(s):
		n.bad("is longer than a domain can be (%d characters, %d between dots)", maxHostName, maxLabel)
	default:
		return true
	}
	return false
}

// hostOf is the name in what is likely a URL.
func hostOf(s string) string {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	s, _, _ = strings.Cut(s, "/")
	s, _, _ = strings.Cut(s, ":")
	if !isDomainName(s) {
		return "googlebot.com"
	}
	return s
}

func isDomainName(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if !isBareKey(label) {
			return false
		}
	}
	return true
}

// isRented reports whether it is a domain in which anybody has a name who rents a
// machine.
func isRented(domain string) bool {
	switch domain {
	case "googleusercontent.com", "bc.googleusercontent.com", "amazonaws.com", "compute.amazonaws.com",
		"cloudapp.azure.com", "cloudapp.net", "linodeusercontent.com", "vultrusercontent.com",
		"your-server.de", "clients.your-server.de", "contaboserver.net", "ovh.net":
		return true
	}
	return false
}

// warnDomains is about domains in which others have names, too.
func warnDomains(doc *document, c *Config) {
	for i := range c.Wanted {
		w := &c.Wanted[i]
		at := keyPath("wanted", w.Name, "domains")
		for n, d := range w.Domains {
			switch {
			case !strings.Contains(d, "."):
				doc.warn(at.elem(n), "%q is a whole top-level domain: whoever has a name in it passes", d)
			case isRented(d):
				doc.warn(at.elem(n), "whoever rents a machine there has a name in %q, and passes: name the part of it that is the machine's alone", d)
			}
		}
	}
}

// proves reports whether a machine is known by more than its agent.
func proves(w *detector.Wanted) bool { return len(w.From) > 0 || len(w.Domains) > 0 }
