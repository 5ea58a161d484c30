package actions

import (
	"context"
	"fmt"
	"net/netip"
)

// UnbanAll takes out all that an action lists, and returns how many bans that
// were. The action must be prepared, if it needs that.
func UnbanAll(ctx context.Context, a Action) (n int, err error) {
	entries, err := a.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("list what it holds: %w", err)
	}
	targets := make([]netip.Prefix, len(entries))
	for i := range entries {
		targets[i] = entries[i].Target
	}
	return len(targets), a.Apply(ctx, nil, targets)
}
