package daemon

import (
	"time"

	"github.com/tailban/tailban/state"
)

// How long parts may take to end; what serves has to store and enforce the last
// changes.
const (
	sourcePatience = 5 * time.Second
	serverPatience = state.DefaultShutdownTimeout + 5*time.Second
	reloadPatience = sourcePatience + actionPatience + 5*time.Second
)

// await waits for parts to end, and goes on without one that hangs: the
// process ends then, and it with it.
func (d *daemon) await(parts []*part, patience time.Duration, what string) {
	if !waitFor(allOf(parts), patience) {
		d.hangs = true
		d.Log.Error("going on without what hangs", "what", what, "after", patience.String())
	}
}

// close lets go of everything, bans aside.
func (d *daemon) close() {
	d.starting.over()
	if d.hangs {
		return // closing could hang as well
	}
	for _, e := range d.action {
		if err := e.action.Close(); err != nil {
			d.Log.Warn("cannot close an action", "action", e.name, "err", err)
		}
	}
	if d.store != nil {
		if err := d.store.close(); err != nil {
			d.Log.Warn("cannot close the state file", "err", err)
		}
	}
	for _, l := range d.locks {
		if err := l.Close(); err != nil {
			d.Log.Warn("cannot unlock a table", "err", err)
		}
	}
}
