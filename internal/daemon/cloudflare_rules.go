package daemon

import (
	"context"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	"github.com/tailban/tailban/internal/config"
)

// leaveRulesFor is leaveFor where each ban is a request that waits for the budget.
const leaveRulesFor = 12 * time.Hour

func leaveTime(a *config.Action) time.Duration {
	if a.Cloudflare != nil && a.Cloudflare.AccessRules {
		return leaveRulesFor
	}
	return leaveFor
}

// teardownEdge is what clears an action at an edge, but for zones that another one of
// the same name there works on by then.
func (d *daemon) teardownEdge(edge *cloudflare.Action, a *config.Action) func(context.Context) (bool, error) {
	if !a.Cloudflare.AccessRules {
		return edge.Teardown
	}
	instance := CloudflareOptions(a, d.Host).Instance
	return func(ctx context.Context) (existed bool, err error) {
		var used []string
		for _, e := range d.enforcers() {
			if c := e.config.Cloudflare; e.edge != edge && c != nil && c.AccessRules && c.Account == a.Cloudflare.Account &&
				CloudflareOptions(&e.config, d.Host).Instance == instance {
				used = append(used, c.Zones...)
			}
		}
		return edge.TeardownBut(ctx, used)
	}
}
