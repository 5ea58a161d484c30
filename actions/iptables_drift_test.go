//go:build linux

package actions_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/syncbuf"
)

// iptablesState is what rules and sets there are in a namespace, without
// members of sets of bans.
func iptablesState(t *testing.T, ns *netlab.NS, variant string) string {
	t.Helper()
	var b strings.Builder
	for _, program := range []string{"iptables-", "ip6tables-"} {
		fmt.Fprintf(&b, "%s\n%s", program, do(t, ns, program+variant+" -S"))
	}
	var sets []string
	for line := range strings.Lines(do(t, ns, "ipset save")) {
		words := strings.Fields(line)
		switch {
		case words[0] == "create": // less what the kernel chooses
			var kept []string
			for i := 0; i < len(words); i++ {
				if slices.Contains([]string{"hashsize", "bucketsize", "initval"}, words[i]) {
					i++
					continue
				}
				kept = append(kept, words[i])
			}
			sets = append(sets, strings.Join(kept, " "))
		case strings.HasSuffix(words[1], "-allow"):
			sets = append(sets, strings.TrimSpace(line))
		}
	}
	slices.Sort(sets)
	return b.String() + strings.Join(sets, "\n") + "\n"
}

// What the rules and sets are is a promise to administrators who add their own.
func TestIptablesRuleset(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		opt.Allow, opt.Size = []netip.Prefix{pfx("192.0.2.0/24"), pfx("2001:db8::/32")}, 1000
		a := preparedIptables(t, ns, opt)
		want := `iptables-
-P INPUT ACCEPT
-P FORWARD ACCEPT
-P OUTPUT ACCEPT
-N TAILBAN
-N TAILBAN-BAN
-A INPUT -j TAILBAN
-A FORWARD -j TAILBAN
-A TAILBAN -m set --match-set tailban4-allow src -j RETURN
-A TAILBAN -p tcp -m multiport --dports 80,443 -g TAILBAN-BAN
-A TAILBAN -p udp -m multiport --dports 80,443 -g TAILBAN-BAN
-A TAILBAN-BAN -m set --match-set tailban4 src -j DROP
-A TAILBAN-BAN -m set --match-set tailban4-net src -j DROP
ip6tables-
-P INPUT ACCEPT
-P FORWARD ACCEPT
-P OUTPUT ACCEPT
-N TAILBAN
-N TAILBAN-BAN
-A INPUT -j TAILBAN
-A FORWARD -j TAILBAN
-A TAILBAN -m set --match-set tailban6-allow src -j RETURN
-A TAILBAN -p tcp -m multiport --dports 80,443 -g TAILBAN-BAN
-A TAILBAN -p udp -m multiport --dports 80,443 -g TAILBAN-BAN
-A TAILBAN-BAN -m set --match-set tailban6 src -j DROP
-A TAILBAN-BAN -m set --match-set tailban6-host src -j DROP
-A TAILBAN-BAN -m set --match-set tailban6-net src -j DROP
add tailban4-allow 192.0.2.0/24
add tailban6-allow 2001:db8::/32
create tailban4 hash:ip family inet maxelem 1000 timeout 0 counters
create tailban4-allow hash:net family inet maxelem 65536
create tailban4-net hash:net family inet maxelem 1000 timeout 0 counters
create tailban6 hash:ip family inet6 maxelem 1000 netmask 64 timeout 0 counters
create tailban6-allow hash:net family inet6 maxelem 65536
create tailban6-host hash:ip family inet6 maxelem 1000 timeout 0 counters
create tailban6-net hash:net family inet6 maxelem 1000 timeout 0 counters
`
		if got := iptablesState(t, ns, opt.Variant); got != want {
			t.Errorf("there is\n%s\nwant\n%s", got, want)
		}
		check(t, a.Prepare(t.Context()))
		if a.Repairs() != 0 {
			t.Error("a second Prepare found something to repair")
		}
		// Nor does another process, which leaves all as it is.
		buf := new(syncbuf.Buffer)
		opt.Log = slog.New(slog.NewTextHandler(buf, nil))
		preparedIptables(t, ns, opt)
		if buf.String() != "" {
			t.Errorf("another process says %s", buf)
		}
	})
}

func TestIptablesRulesetThatRejects(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		opt.Reject, opt.AllPorts = true, true
		a := preparedIptables(t, ns, opt)
		got := iptablesState(t, ns, opt.Variant)
		for _, want := range []string{
			"-A TAILBAN -g TAILBAN-BAN\n",
			"-A TAILBAN-BAN -p tcp -m set --match-set tailban4 src -j REJECT --reject-with tcp-reset\n-A TAILBAN-BAN -m set --match-set tailban4 src -j REJECT --reject-with icmp-port-unreachable\n",
			"-A TAILBAN-BAN -p tcp -m set --match-set tailban6-net src -j REJECT --reject-with tcp-reset\n-A TAILBAN-BAN -m set --match-set tailban6-net src -j REJECT --reject-with icmp6-port-unreachable\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("there is no\n%s\nin\n%s", want, got)
			}
		}
		check(t, a.Prepare(t.Context()))
		if a.Repairs() != 0 {
			t.Error("a second Prepare found something to repair")
		}
	})
}

// foreign are rules of somebody else, in both families.
const foreign = `
-A INPUT -p tcp --dport 22 -j ACCEPT
-N others
-A others -j RETURN
-A FORWARD -j others
`

// Each is done by somebody else. The next Prepare brings back all that is ours,
// says so, and leaves what is not.
func TestIptablesRepairs(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]string{
		"all chains flushed":        "4 -F",
		"all chains flushed, IPv6":  "6 -F",
		"our chain flushed":         "4 -F TAILBAN",
		"our other chain flushed":   "6 -F TAILBAN-BAN",
		"jump gone":                 "4 -D INPUT -j TAILBAN",
		"jump gone from FORWARD":    "6 -D FORWARD -j TAILBAN",
		"a rule above the jump":     "4 -I INPUT -p tcp --dport 25 -j ACCEPT",
		"a second jump":             "4 -I INPUT 1 -p tcp --dport 25 -j ACCEPT\n4 -A INPUT -j TAILBAN",
		"a rule in our chain":       "4 -A TAILBAN -m comment --comment two_words -j ACCEPT",
		"a rule first in our chain": "6 -I TAILBAN -j RETURN",
		"a rule without a target":   "4 -I TAILBAN-BAN",
		"a rule less":               "4 -D TAILBAN-BAN 1",
		"a rule replaced":           "4 -R TAILBAN-BAN 1 -m set --match-set tailban4 dst -j DROP",
		"another verdict":           "6 -R TAILBAN-BAN 2 -m set --match-set tailban6-host src -j RETURN",
		"all of it gone":            "4 -F\n4 -X TAILBAN\n4 -X TAILBAN-BAN\nipset destroy tailban4\nipset destroy tailban4-net\nipset destroy tailban4-allow",
		"allowed removed":           "ipset del tailban4-allow 192.0.2.0/24",
		"allowed added":             "ipset add tailban6-allow 2001:db9::/32",
		"allowed made an exception": "ipset del tailban4-allow 192.0.2.0/24\nipset add tailban4-allow 192.0.2.0/24 nomatch",
		"a set of another size":     "ipset create x hash:ip maxelem 5 timeout 0 counters\nipset swap x tailban4\nipset destroy x",
		"a set with forceadd":       "ipset create x hash:ip timeout 0 counters forceadd\nipset swap x tailban4\nipset destroy x",
		"a set without timeouts":    "ipset create x hash:ip counters\nipset swap x tailban4\nipset destroy x",
		"a set that others' is":     "4 -F\n6 -F\nipset destroy tailban4\nipset create tailban4 list:set",
	} {
		t.Run(name, func(t *testing.T) {
			variants(t, func(t *testing.T, opt actions.IptablesOptions) {
				ns := newNS(t)
				opt.Allow = []netip.Prefix{pfx("192.0.2.0/24"), pfx("2001:db8::/32")}
				a := preparedIptables(t, ns, opt)
				want := iptablesState(t, ns, opt.Variant)
				for line := range strings.Lines(edit) {
					line = strings.Replace(line, "4 -", "iptables-"+opt.Variant+" -", 1)
					line = strings.Replace(line, "6 -", "ip6tables-"+opt.Variant+" -", 1)
					do(t, ns, line)
				}
				check(t, a.Prepare(t.Context()))
				got := iptablesState(t, ns, opt.Variant)
				got = strings.ReplaceAll(got, "-A INPUT -p tcp -m tcp --dport 25 -j ACCEPT\n", "") // not ours
				if got != want {
					t.Errorf("there is\n%s\nwant\n%s", got, want)
				}
				if a.Repairs() != 1 {
					t.Errorf("%d repairs were counted, want 1", a.Repairs())
				}
				check(t, a.Prepare(t.Context()))
				if a.Repairs() != 1 {
					t.Error("a second Prepare found something to repair")
				}
				apply(t, a, ban("198.51.100.1/32", time.Hour))
			})
		})
	}
}

// Rules of others stay where they are, whatever we do.
func TestIptablesLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		l := &iptablesLab{lab: newBareLab(t), opt: opt}
		l.admin(foreign)
		for _, line := range []string{"create theirs hash:ip", "add theirs 192.0.2.77", "create tailbanx hash:ip"} {
			do(t, l.server, "ipset "+line)
		}
		saved := func() string {
			out := do(t, l.server, "ipset save theirs") + do(t, l.server, "ipset save tailbanx")
			return out + iptablesState(t, l.server, opt.Variant)
		}
		before := saved()
		opt.NetNS = l.server.FD()
		if existed, err := actions.TeardownIptables(t.Context(), opt); err != nil || existed {
			t.Errorf("nothing torn down: %t, %v", existed, err)
		}
		a := preparedIptables(t, l.server, opt)
		apply(t, a, ban("192.0.2.1/32", time.Hour))
		l.admin("-F TAILBAN\n-D INPUT -j TAILBAN\n-A INPUT -j TAILBAN")
		check(t, a.Prepare(t.Context()))
		if existed, err := actions.TeardownIptables(t.Context(), opt); err != nil || !existed {
			t.Errorf("torn down: %t, %v", existed, err)
		}
		if after := saved(); after != before {
			t.Errorf("there is\n%s\nwas\n%s", after, before)
		}
	})
}

func TestTeardownIptablesInUse(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		l := &iptablesLab{lab: newBareLab(t), opt: opt}
		opt.NetNS = l.server.FD()
		preparedIptables(t, l.server, opt)
		l.admin("-A OUTPUT -j TAILBAN")
		_, err := actions.TeardownIptables(t.Context(), opt)
		if err == nil || !strings.Contains(err.Error(), "chain TAILBAN") || !strings.Contains(err.Error(), "not ours") {
			t.Errorf("a chain that others jump to: %v", err)
		}
		l.admin("-F OUTPUT")
		do(t, l.server, "iptables-"+opt.Variant+" -A OUTPUT -m set --match-set tailban4 dst -j DROP")
		_, err = actions.TeardownIptables(t.Context(), opt)
		if err == nil || !strings.Contains(err.Error(), "set tailban4") || !strings.Contains(err.Error(), "iptables-save") {
			t.Errorf("a set that others look into: %v", err)
		}
	})
}

// Docker, or an administrator, restores a whole table while the daemon runs, and
// somebody destroys the sets that nothing refers to any more.
func TestIptablesReconciled(t *testing.T) {
	t.Parallel()
	const restored = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n:DOCKER-USER - [0:0]\n" +
		"-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A FORWARD -j DOCKER-USER\n-A DOCKER-USER -j RETURN\nCOMMIT\n"
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		a := newIptables(t, ns, opt)
		buf := new(syncbuf.Buffer)
		r := actions.NewReconciler(actions.Options{
			Name: "iptables", Action: a, Interval: 20 * time.Millisecond, Log: slog.New(slog.NewTextHandler(buf, nil)),
		})
		bans := []string{"192.0.2.1/32", "2001:db8:0:1::/64", "2001:db8::7/128", "203.0.113.0/24", "2001:db8:40::/48", "0.0.0.0/32", "::/64", "::/128"}
		for _, b := range bans {
			r.Set(pfx(b), time.Now().Add(time.Hour))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		defer func() { cancel(); check(t, <-done) }()
		looker := newIptables(t, ns, opt)
		enforced := func(what string) {
			t.Helper()
			until(t, what, func() bool {
				entries, err := looker.List(t.Context())
				rules := do(t, ns, "iptables-"+opt.Variant+" -S INPUT")
				return err == nil && len(entries) == len(bans) &&
					strings.HasPrefix(strings.SplitN(rules, "\n", 2)[1], "-A INPUT -j TAILBAN\n")
			})
		}
		enforced("the bans are in force")
		for _, program := range []string{"iptables-", "ip6tables-"} {
			doWith(t, ns, program+opt.Variant+"-restore", restored)
		}
		_ = tryDo(ns, "ipset destroy") // fails if the rules are back already
		enforced("the bans are in force again")
		until(t, "Docker's chain jumps to ours", func() bool {
			return strings.Contains(do(t, ns, "iptables-"+opt.Variant+" -S DOCKER-USER"), "-N DOCKER-USER\n-A DOCKER-USER -j TAILBAN\n")
		})
		do(t, ns, "ipset flush")
		enforced("the bans are in force after a flush")
		if s := r.Stats(); s.DriftAdded < uint64(len(bans)) {
			t.Errorf("counted %+v", s)
		}
		if !strings.Contains(buf.String(), "repaired") {
			t.Error("nothing was said: ", buf)
		}
	})
}

// Rules and sets of another configuration give way to ours, and bans stay.
func TestIptablesOtherConfiguration(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		l := newBareLab(t)
		l.echo(l.server, "80")
		old := opt
		old.Size, old.Ports, old.Reject, old.Allow = 500, []uint16{22}, true, []netip.Prefix{pfx("10.1.0.2/32")}
		a := preparedIptables(t, l.server, old)
		apply(t, a, ban("10.1.0.2/32", 2*time.Hour), ban("2001:db8:0:1::/64", time.Hour), ban("203.0.113.0/24", time.Hour))
		b := preparedIptables(t, l.server, opt)
		got := listed(t, b)
		if len(got) != 3 || got["10.1.0.2/32"].Left < time.Hour {
			t.Errorf("bans became %v", got)
		}
		l.mustDrop("udp", "10.1.0.2", "80")
		if p := listed(t, b)["10.1.0.2/32"].Packets; p != 1 {
			t.Errorf("%d packets were counted, want 1", p)
		}
		if b.Repairs() != 0 {
			t.Error("what an earlier configuration has left was taken for damage")
		}
		smaller := opt
		smaller.Size = 100
		c := preparedIptables(t, l.server, smaller)
		if e := listed(t, c)["10.1.0.2/32"]; e.Packets != 1 || e.Left < time.Hour {
			t.Errorf("a smaller set holds %+v", e)
		}
	})
}

// A set of ours that cannot be replaced, as somebody else looks into it.
func TestIptablesSetInUse(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		ns := newNS(t)
		do(t, ns, "ipset create tailban4 list:set")
		do(t, ns, "iptables-"+opt.Variant+" -A OUTPUT -m set --match-set tailban4 dst -j DROP")
		a := newIptables(t, ns, opt)
		err := a.Prepare(t.Context())
		if err == nil || errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "replace set tailban4") {
			t.Errorf("Prepare returned %v", err)
		}
		do(t, ns, "iptables-"+opt.Variant+" -F OUTPUT")
		check(t, a.Prepare(t.Context()))
		apply(t, a, ban("192.0.2.1/32", time.Hour))
	})
}
