package config

import "strings"

const (
	// maxHosts is how many host names may be allowed: each is looked up again
	// and again.
	maxHosts = 32

	// Longest names and labels of the DNS (RFC 1035, section 2.3.4), the
	// former as text without the dot at the end.
	maxHostName = 253
	maxLabel    = 63
)

// allowHost notes a host name that is allowed.
func (n node) allowHost(s string, once unique, c *Config) {
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	switch {
	case !fitsDNS(name):
		n.bad("is longer than a host name can be (%d characters, %d between dots)", maxHostName, maxLabel)
	case !once.first(n, name):
	case len(c.AllowHosts) == maxHosts:
		n.bad("is one host name too many (%d at most): write their addresses, or name a file of them", maxHosts)
	default:
		c.AllowHosts = append(c.AllowHosts, name)
	}
}

func fitsDNS(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if len(label) > maxLabel {
			return false
		}
	}
	return len(name) <= maxHostName
}

// isHostName reports whether s can only be meant as a host name: labels with
// dots between them, the last of which doesn't begin with a digit.
func isHostName(s string) bool {
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	for _, l := range labels {
		if !isBareKey(l) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && (last[0] < '0' || last[0] > '9')
}
