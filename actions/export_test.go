//go:build linux

package actions

// ActAsOldKernel makes the action change timeouts as kernels before 6.12 need
// it.
func ActAsOldKernel(n *Nftables) { n.renew = false }

// Renews reports whether the kernel is taken for one that needs no such help.
func Renews(n *Nftables) bool { return n.renew }

// Connected reports whether the netlink socket is open.
func Connected(n *Nftables) bool { return n.conn != nil }
