package daemon

import (
	"slices"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// use makes the engine work by another configuration. Bans stay, unless their
// action is gone. It returns how many were enforced before, and are now.
func (e *engine) use(n *next, list []*enforcer, now time.Time) (before, after int) {
	before = e.enforced()
	e.config = n.config
	e.noteBegun(e.detect.Use(n.rules))
	e.setLogs(n.config, n.formats)
	e.setActions(list)
	for name := range e.jails {
		if !e.hasJail(name) {
			delete(e.jails, name)
		}
	}
	e.bans.cap = n.config.MaxBans
	if rate := n.config.MaxBansPerMinute; rate != e.storm.rate {
		e.storm.rate, e.storm.tokens = rate, float64(rate)
	}
	for e.bans.overfull() {
		e.lift(e.bans.evict())
	}
	fresh := map[string]bool{}
	for _, x := range n.fresh {
		if fresh[x.name] = true; x.merger != nil {
			e.spareForgiven(x.merger)
		}
	}
	rules := actionsOf(n.config)
	for _, h := range e.bans.bans {
		renewed, dropped := rules.renew(&h.Ban), e.dropGone(h)
		if renewed || dropped {
			e.touch(&h.Ban)
			e.retell(&h.Ban)
		}
		for name, r := range e.reconciler {
			switch end := h.Ban.Until(name); {
			case !end.IsZero() && (fresh[name] || renewed || dropped):
				r.Set(h.Target, end)
			case end.IsZero() && (renewed || dropped):
				r.Delete(h.Target)
			}
		}
	}
	e.handOver()
	return before, e.enforced()
}

// noteBegun notes which jails count from zero on, for all but those that go on.
// What lines are by the new configuration may differ in other ways, too, so
// those from before are not to be read again.
func (e *engine) noteBegun(kept []string) {
	for i := range e.config.Jails {
		if name := e.config.Jails[i].Name; !slices.Contains(kept, name) {
			e.note(state.Note{What: state.NoteBegun, Jail: name})
		}
	}
	e.snapshots.hasten()
}

// enforced counts the bans that some action in use keeps away.
func (e *engine) enforced() (n int) {
	for _, h := range e.bans.bans {
		if slices.ContainsFunc(h.Owners, func(o state.Owner) bool { return slices.ContainsFunc(o.Actions, e.keepsAway) }) {
			n++
		}
	}
	return n
}

// dropGone takes actions that are no more off a ban's owners. A ban by hand
// moves to those there are. An action that is there and not in use, since all
// only observe, stays: bans are enforced again when it is.
func (e *engine) dropGone(h *heldBan) (changed bool) {
	for i := range h.Owners {
		o := &h.Owners[i]
		left := slices.DeleteFunc(slices.Clone(o.Actions), func(a string) bool {
			return !slices.ContainsFunc(e.config.Actions, func(c config.Action) bool { return c.Name == a })
		})
		if len(left) == len(o.Actions) {
			continue
		}
		if len(left) == 0 && (o.Jail == control.ByHand || o.Jail == adoptedJail) {
			left = e.keepers()
		}
		o.Actions, changed = left, true
	}
	return changed
}

// drain counts what has been sent and not yet been taken.
func (e *engine) drain(batches <-chan *source.Batch, now time.Time) {
	for {
		select {
		case b := <-batches:
			e.take(b, now)
		default:
			return
		}
	}
}

// positionsOf lists how far the files of logs have been counted.
func (e *engine) positionsOf(logs []string) []state.Position {
	var out []state.Position
	for key, p := range e.positions {
		if slices.Contains(logs, key.Log) {
			out = append(out, p)
		}
	}
	return out
}

func logNamed(c *config.Config, name string) *config.Log {
	for i := range c.Logs {
		if c.Logs[i].Name == name {
			return &c.Logs[i]
		}
	}
	return nil
}
