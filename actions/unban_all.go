//go:build linux

package actions

import (
	"context"
	"fmt"
	"net/netip"
)

// UnbanAll takes out all that programs list, or remember, and returns how many bans
// that were. Those that take part are looked at before, as by Prepare; that ban need
// not be there.
func UnbanAll(ctx context.Context, c *Command) (n int, err error) {
	if err := c.PrepareUnban(ctx); err != nil {
		return 0, err
	}
	entries, err := c.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("list what it holds: %w", err)
	}
	targets := make([]netip.Prefix, len(entries))
	for i := range entries {
		targets[i] = entries[i].Target
	}
	return len(targets), c.Apply(ctx, nil, targets)
}
