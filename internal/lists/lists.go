// Package lists holds address ranges that providers publish, by the
// provider's name.
package lists

import (
	"net/netip"
	"slices"
)

// Snapshot is the day on which the built-in ranges were last compared with
// what the providers publish, as YYYY-MM-DD.
const Snapshot = "2026-02-11"

const cloudflare = "cloudflare"

// Names returns the names that Lookup knows, sorted.
func Names() []string { return []string{cloudflare} }

// Lookup returns the ranges a provider sends requests from, masked and
// unmapped, IPv4 first. The slice is the caller's. It reports false for a
// name that is no provider; names are lower case.
func Lookup(name string) ([]netip.Prefix, bool) {
	switch name {
	case cloudflare:
		return slices.Concat(cloudflareV4(), cloudflareV6()), true
	default:
		return nil, false
	}
}
