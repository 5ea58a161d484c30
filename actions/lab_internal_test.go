//go:build linux

package actions

import (
	"testing"

	"github.com/tailban/tailban/internal/netlab"
)

// namespace makes a network namespace for a test.
func namespace(t *testing.T) *netlab.NS {
	t.Helper()
	ns, err := netlab.New()
	if err != nil {
		t.Skip("needs network namespaces: ", err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// nftablesIn makes an action that works in a network namespace.
func nftablesIn(t *testing.T, ns *netlab.NS, opt NftablesOptions) *Nftables {
	t.Helper()
	opt.NetNS = ns.FD()
	n := NewNftables(opt)
	t.Cleanup(func() { n.Close() })
	return n
}
