package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
)

// Pauses of a reconciler whose action is at the other end of the internet, and has
// its calls counted.
const (
	edgeMinBackoff = 15 * time.Second
	edgeMaxBackoff = 5 * time.Minute
	edgePatience   = 6 * time.Minute // more than a change there may take
)

// useCloudflare makes an action that bans at Cloudflare.
func (d *daemon) useCloudflare(e *enforcer, a *config.Action, log *slog.Logger) error {
	o := CloudflareOptions(a, d.Host)
	o.Memory = filepath.Join(d.Config.StateDir, "cloudflare-"+a.Name+".json")
	o.Protected, o.Log = d.guard.Protected, log
	edge, err := cloudflare.New(o)
	if err != nil {
		return fmt.Errorf("action %s: %w", a.Name, err)
	}
	e.action, e.ends, e.edge = &edgeAction{Action: edge}, edge.Run, edge
	e.beside = func() actions.Action { return knownAtEdge{edge} }
	e.teardown = d.teardownEdge(edge, a)
	return nil
}

// knownAtEdge lists what is known to be at the edge. To ask would cost requests.
type knownAtEdge struct{ *cloudflare.Action }

func (k knownAtEdge) List(ctx context.Context) ([]actions.Entry, error) { return k.Known(), ctx.Err() }

// CloudflareOptions are those that the configuration says. host is the name of this
// host.
func CloudflareOptions(a *config.Action, host string) cloudflare.Options {
	c := a.Cloudflare
	o := cloudflare.Options{
		API: c.API, Account: c.Account, Token: c.Token.Read, List: c.List, Create: c.Create, Instance: c.Instance, AccessRules: c.AccessRules,
		Zones: c.Zones, Lease: c.Lease, RuleAction: c.RuleAction, SyncEvery: c.SyncEvery, Capacity: c.Capacity, Budget: cloudflare.Budget{Requests: c.Requests, Changes: c.Changes},
	}
	if o.Instance == "" {
		o.Instance = cloudflare.Instance(host)
	}
	return o
}

// sameAtEdge reports whether two actions at Cloudflare have the same items there. Who is
// named as this host is, and who has no name, is the same.
func (d *daemon) sameAtEdge(a, b *config.Action) bool {
	if a.Cloudflare == nil || b.Cloudflare == nil {
		return false
	}
	x, y := CloudflareOptions(a, d.Host), CloudflareOptions(b, d.Host)
	switch {
	case x.Account != y.Account || x.Instance != y.Instance || x.AccessRules != y.AccessRules:
		return false
	case x.AccessRules:
		return slices.Equal(slices.Sorted(slices.Values(x.Zones)), slices.Sorted(slices.Values(y.Zones)))
	}
	return x.List == y.List
}

func (d *daemon) edgeUsed(a *config.Action) bool {
	return slices.ContainsFunc(d.enforcers(), func(e *enforcer) bool { return d.sameAtEdge(&e.config, a) })
}

// clearedAtEdge has those look again who use a list, or access rules, that another
// name's were taken out of: they may have counted on these, or on the rule.
func (d *daemon) clearedAtEdge(a *config.Action) {
	if a.Cloudflare == nil {
		return
	}
	for _, e := range d.enforcers() {
		c := e.config.Cloudflare
		if e.edge != nil && c.Account == a.Cloudflare.Account && c.AccessRules == a.Cloudflare.AccessRules && (c.AccessRules || c.List == a.Cloudflare.List) {
			e.edge.LookAgain()
		}
	}
}

// edgeStatus fills in what is particular to an action at an edge.
func edgeStatus(a *control.ActionStatus, e *enforcer) {
	s := e.edge.Stats()
	a.Edge = &control.EdgeStatus{
		List: e.config.Cloudflare.List, Items: s.Items, Others: s.Others, Covered: s.Covered, Waiting: s.Waiting, Unused: s.Unused, Overdue: s.Overdue,
		Requests: s.Requests, Writes: s.Writes, Changes: s.Changes, Removed: s.Removed,
	}
	if c := e.config.Cloudflare; c.AccessRules {
		a.Edge.List, a.Edge.Rules = "", c.RulesOf()
	}
	for _, l := range e.edge.Leases() {
		x := control.Lease{Zone: l.Zone, Deadline: utc(l.Deadline), Off: l.Off}
		if l.Err != nil {
			x.Err, x.Since = l.Err.Error(), utc(l.Since)
		}
		a.Edge.Leases = append(a.Edge.Leases, x)
	}
}

// judgeLeases tells of rules at an edge that keep nobody away, or will not.
func judgeLeases(a *control.ActionStatus, add func(kind, where, text string, since time.Time)) {
	if a.Edge == nil {
		return
	}
	for _, l := range a.Edge.Leases {
		switch {
		case l.Err != "" && a.Edge.Rules != "":
			add("failing", "action "+a.Name, "zone "+l.Zone+" refuses access rules, so bans are in force in the others only: "+l.Err, l.Since)
		case l.Err != "":
			text := "the rule of zone " + l.Zone + " can't be renewed"
			if !l.Deadline.IsZero() {
				text += ", and lapses at " + clock(l.Deadline)
			}
			add("failing", "action "+a.Name, text+": "+l.Err, l.Since)
		case l.Off:
			add("failing", "action "+a.Name, "somebody has turned off the rule of zone "+l.Zone+", so it keeps nobody away", time.Time{})
		}
	}
}

// edgeBudgets are those of actions at an edge.
func edgeBudgets(e *enforcer) (out []control.Budget) {
	for _, u := range e.edge.Usage() {
		out = append(out, control.Budget{Name: e.name + ": " + u.Name, Unit: u.Unit, Used: u.Used, Limit: u.Limit})
	}
	return out
}

// whyThroughEdge says why requests come through the proxy of a client that an
// action there should keep away.
func (d *daemon) whyThroughEdge(b *control.Ban, at *control.AtAction, e *enforcer) string {
	s := e.reconciler.Stats()
	sync := e.config.Cloudflare.SyncEvery
	switch {
	case s.Failing:
		return fmt.Sprintf("action %s is failing: %v", e.name, s.Err)
	case at.Held != nil && !*at.Held && s.LeftOut > 0:
		return fmt.Sprintf("action %s is full: it has no room for the bans that end soonest", e.name)
	case at.Held != nil && !*at.Held:
		return fmt.Sprintf("action %s does not hold the ban yet: it writes every %s, as far as its budget goes", e.name, config.FormatDuration(sync))
	case e.edge.Stats().Unused:
		return fmt.Sprintf("no rule at Cloudflare uses the list %s, so it keeps nobody away", e.config.Cloudflare.List)
	case e.edge.Lapsed() != "" && e.config.Cloudflare.AccessRules:
		return fmt.Sprintf("zone %s at Cloudflare refuses access rules: see tailban status", e.edge.Lapsed())
	case e.edge.Lapsed() != "":
		return fmt.Sprintf("the rule of zone %s at Cloudflare has lapsed, or is turned off: see tailban status", e.edge.Lapsed())
	case b.LastSeen.Sub(b.Since) <= 2*sync+inFlight:
		return "they came before Cloudflare had the ban"
	}
	if c := e.config.Cloudflare; c.AccessRules {
		return fmt.Sprintf("an access rule of %s has it: does this site belong there, or does another rule there let it through?", c.RulesOf())
	}
	return fmt.Sprintf("the list %s has it: does a rule of this site block what is in it?", e.config.Cloudflare.List)
}
