//go:build linux

package actions_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
)

// A teardown that is to remove only what we make leaves the tables of others alone,
// whatever they are called, and removes ours.
func TestTeardownOursOnly(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	foreign := addForeign(t, ns)
	opt := actions.NftablesOptions{NetNS: ns.FD(), Table: foreignTable, OursOnly: true}
	if existed, err := actions.Teardown(t.Context(), opt); !errors.Is(err, actions.ErrNotOurs) || !errors.Is(err, actions.ErrPermanent) || existed {
		t.Errorf("a table of others: %v, %v", existed, err)
	}
	if got := dump(t, ns, foreignTable); got != foreign {
		t.Errorf("it was touched:\n%s\nwant\n%s", got, foreign)
	}
	for _, chain := range []string{"input", "prerouting"} {
		do(t, ns, "nft add table inet other")
		do(t, ns, "nft add chain inet other "+chain)
		opt.Table = "other"
		if _, err := actions.Teardown(t.Context(), opt); !errors.Is(err, actions.ErrNotOurs) {
			t.Errorf("one with the chain %s alone: %v", chain, err)
		}
		do(t, ns, "nft delete table inet other")
	}
	opt.Table = ""
	apply(t, prepared(t, ns, opt), ban("192.0.2.1/32", time.Hour))
	if existed, err := actions.Teardown(t.Context(), opt); err != nil || !existed {
		t.Errorf("ours: %v, %v", existed, err)
	}
}

// So does one of iptables, with the chains and sets of others.
func TestTeardownIptablesOursOnly(t *testing.T) {
	t.Parallel()
	variants(t, func(t *testing.T, opt actions.IptablesOptions) {
		l := &iptablesLab{lab: newBareLab(t), opt: opt}
		opt.NetNS = l.server.FD()
		l.admin("-N theirs\n-A theirs -p tcp -j DROP\n-A INPUT -j theirs\n-N empty\n-A INPUT -j empty\n-N theirs-BAN\n-A theirs-BAN -j DROP\n-N half-BAN\n-A half-BAN -j DROP")
		do(t, l.server, "ipset create theirs4 bitmap:port range 1-9")
		before := iptablesState(t, l.server, opt.Variant) + do(t, l.server, "ipset save")
		for _, tt := range []struct{ chain, sets string }{{"theirs", "x"}, {"empty", "x"}, {"half", "x"}, {"none", "theirs"}} {
			o := opt
			o.Chain, o.Prefix, o.OursOnly = tt.chain, tt.sets, true
			if existed, err := actions.TeardownIptables(t.Context(), o); !errors.Is(err, actions.ErrNotOurs) || !errors.Is(err, actions.ErrPermanent) || existed {
				t.Errorf("%v: %v, %v", tt, existed, err)
			}
		}
		if after := iptablesState(t, l.server, opt.Variant) + do(t, l.server, "ipset save"); after != before {
			t.Errorf("there is\n%s\nwas\n%s", after, before)
		}
		for _, o := range []actions.IptablesOptions{{}, {Reject: true}, {AllPorts: true}} {
			o.NetNS, o.Variant, o.OursOnly = opt.NetNS, opt.Variant, true
			apply(t, preparedIptables(t, l.server, o), ban("192.0.2.1/32", time.Hour))
			if existed, err := actions.TeardownIptables(t.Context(), o); err != nil || !existed {
				t.Errorf("ours: %v, %v", existed, err)
			}
		}
	})
}
