//go:build linux

package actions

import (
	"slices"
	"strconv"
	"strings"
)

// Chains of the table filter that are not ours.
const (
	tableFilter     = "filter"
	chainInput      = "INPUT"
	chainForward    = "FORWARD"
	chainDockerUser = "DOCKER-USER"
)

// maxPorts is how many ports one rule of the match multiport can name.
const maxPorts = 15

// ipFamily is IPv4 or IPv6 to iptables.
type ipFamily struct {
	name   string
	v6     bool
	allow  string   // the set of what is let pass
	bans   []string // the sets of bans
	reject string   // the answer to anything but TCP
}

func ipFamilies() []ipFamily {
	return []ipFamily{
		{"IPv4", false, setAllow4, []string{setBan4, setNet4}, "icmp-port-unreachable"},
		{"IPv6", true, setAllow6, []string{setBan6, setHost6, setNet6}, "icmp6-port-unreachable"},
	}
}

// banChain is the second of our chains, with the rules that look into the sets
// of bans; the first one sends there what is allowed to be looked at.
func banChain(opt IptablesOptions) string { return opt.Chain + "-BAN" }

// chain is a chain of ours with its rules, each as "iptables -S" shows it, from
// the name of the chain on. None has a word with a space in it.
type chain struct {
	name  string
	rules []string
}

// chainsFor lists our chains, those that others jump to first. What is allowed
// leaves by RETURN: an ACCEPT would be the last word, over the administrator's
// rules behind ours. Ports are compared before a set of bans is looked at, as a
// look counts the packet in the member's counter.
//
// A rule that compares the port before translation has the kernel track
// connections, which a host that needs no tracking should be spared: tracked
// says that it does so anyway. Only the direction of the one who connects is
// compared, so that replies to what we have asked for pass.
func chainsFor(opt IptablesOptions, f ipFamily, tracked bool) []chain {
	first := chain{name: opt.Chain, rules: []string{
		"-m set --match-set " + ipsetName(opt, f.allow) + " src -j RETURN",
	}}
	ban := chain{name: banChain(opt)}
	if opt.AllPorts {
		first.rules = append(first.rules, "-g "+ban.name)
	} else {
		for _, match := range portMatches(opt.Ports, tracked) {
			first.rules = append(first.rules, match+" -g "+ban.name)
		}
	}
	for _, set := range f.bans {
		match := "-m set --match-set " + ipsetName(opt, set) + " src"
		if opt.Reject {
			ban.rules = append(ban.rules,
				"-p tcp "+match+" -j REJECT --reject-with tcp-reset",
				match+" -j REJECT --reject-with "+f.reject)
		} else {
			ban.rules = append(ban.rules, match+" -j DROP")
		}
	}
	return []chain{ban, first}
}

func portMatches(ports []uint16, tracked bool) (matches []string) {
	for _, proto := range []string{"tcp", "udp"} {
		for part := range slices.Chunk(ports, maxPorts) {
			list := make([]string, len(part))
			for i, p := range part {
				list[i] = strconv.Itoa(int(p))
			}
			matches = append(matches, "-p "+proto+" -m multiport --dports "+strings.Join(list, ","))
		}
	}
	if !tracked {
		return matches
	}
	for _, proto := range []string{"tcp", "udp"} {
		for _, p := range ports {
			matches = append(matches, "-p "+proto+" -m conntrack --ctorigdstport "+strconv.Itoa(int(p))+" --ctdir ORIGINAL")
		}
	}
	return matches
}

// jump is the rule by which a chain of somebody else's leads to ours.
func jump(opt IptablesOptions) string { return "-j " + opt.Chain }

// likeOurs reports whether a chain has rules as the first of our chains has, of
// whatever action: another daemon of ours is not to be fought with.
func likeOurs(name string, rules []string) bool {
	if len(rules) < 2 || !strings.HasPrefix(rules[0], "-m set --match-set ") || !strings.HasSuffix(rules[0], " src -j RETURN") {
		return false
	}
	return !slices.ContainsFunc(rules[1:], func(rule string) bool { return !strings.HasSuffix(rule, "-g "+name+"-BAN") })
}

// jumpsFirst reports whether our jump comes first in a chain with these rules,
// or behind those of our other actions alone. In FORWARD, Docker's to DOCKER-USER,
// where ours is first as well, may be above it.
func jumpsFirst(opt IptablesOptions, name string, rules []string) bool {
	if name == chainForward && len(rules) > 1 && rules[0] == "-j "+chainDockerUser {
		rules = rules[1:]
	}
	for _, rule := range rules {
		if rule == jump(opt) {
			return true
		}
		if to, ok := strings.CutPrefix(rule, "-j "); !ok || !slices.Contains(opt.Siblings, to) {
			break
		}
	}
	return false
}
