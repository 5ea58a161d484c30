package daemon

import (
	"slices"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/parser"
	"github.com/tailban/tailban/state"
)

// reach returns those of a jail's actions that a ban is given to. A client that comes
// directly is not banned at an edge, where it isn't seen and each ban costs; but if
// nothing else would keep it away, it is. One behind a proxy is banned at the edge,
// and by the kernel as well, where that costs nothing: it may come directly next.
func reach(all []config.Action, names []string, plane string) []string {
	if plane != parser.Direct.String() {
		return names
	}
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return isEdge(all, name) })
	keeps := func(name string) bool {
		return slices.ContainsFunc(all, func(a config.Action) bool { return a.Name == name && a.Type != config.TypeLog })
	}
	if len(left) == len(names) || !slices.ContainsFunc(left, keeps) {
		return names
	}
	return left
}

func isEdge(all []config.Action, name string) bool {
	return slices.ContainsFunc(all, func(a config.Action) bool { return a.Name == name && a.Edge() })
}

// toEdge has a ban of a client that came directly, and is seen behind a proxy now,
// enforced at the edge, too: or else to have been banned once at the origin would
// open the way through the proxy until that is over.
func (e *engine) toEdge(h *heldBan) {
	rules := actionsOf(e.config)
	changed := false
	for i := range h.Owners {
		o := &h.Owners[i]
		names := rules.jails[o.Jail]
		if o.Plane != parser.Direct.String() || len(o.Actions) == 0 || !slices.ContainsFunc(names, func(name string) bool { return isEdge(e.config.Actions, name) }) {
			continue
		}
		o.Plane, o.Actions, changed = parser.Forwarded.String(), names, true
	}
	if !changed {
		return
	}
	e.touch(&h.Ban)
	e.noteChanged(&h.Ban)
	e.enforce(&h.Ban)
}

// direct reports whether an owner of a ban decided about a client that came directly.
func (h *heldBan) direct() bool {
	return slices.ContainsFunc(h.Owners, func(o state.Owner) bool { return o.Plane == parser.Direct.String() })
}
