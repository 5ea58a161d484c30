//go:build linux

package actions

// ActAsOldKernel makes the action change timeouts as kernels before 6.12 need
// it.
func ActAsOldKernel(n *Nftables) { n.renew, n.probed = false, true }

// Renews reports whether the kernel has been found to need no such help.
func Renews(n *Nftables) bool { return n.renew }

// HearLittle makes the socket that listens small.
func HearLittle(n *Nftables) { n.watchBuffer = 4 << 10 }

// Connected reports whether the netlink socket is open.
func Connected(n *Nftables) bool { return n.conn != nil }

// ActAsUnprotecting makes the action ask for a flag that no kernel has, as
// kernels before 6.9 take those of protection. It comes before Prepare.
func ActAsUnprotecting(n *Nftables) { n.flags |= 1 << 7 }

// ActAsWithoutIPv6 makes the action take the kernel for one without IPv6.
func ActAsWithoutIPv6(t *Iptables) { t.hasIPv6 = func() bool { return false } }
