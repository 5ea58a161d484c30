package daemon

import (
	"fmt"
	"log/slog"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/config"
)

// useCommand makes an action that runs programs.
func (d *daemon) useCommand(e *enforcer, a *config.Action, log *slog.Logger) error {
	o := CommandOptions(a)
	o.Protected, o.Log, o.OnOverdue = d.guard.Protected, log, d.overdueChanged(a.Name)
	o.WasOverdue = d.hub.alarms.goesOn(aboutOverdue(a.Name))
	if old := d.enforcer(a.Name); old != nil && len(o.List) == 0 { // a list would show what it can't take out
		o.Before = old.programs
	}
	c, err := actions.NewCommand(o)
	if err != nil {
		return fmt.Errorf("action %s: %w", a.Name, err)
	}
	for _, w := range c.Warnings() {
		log.Warn(w)
	}
	e.action, e.ends = c.Action(), c.Run
	if len(o.List) > 0 {
		e.beside = func() actions.Action { return c } // it lists beside its other work
	}
	e.programs = c
	return nil
}

// CommandOptions are those that the configuration says.
func CommandOptions(a *config.Action) actions.CommandOptions {
	c := a.Command
	return actions.CommandOptions{
		Ban: c.Ban, Unban: c.Unban, Check: c.Check, List: c.List, ListTarget: c.ListTarget, ListSeconds: c.ListSeconds,
		Expires: c.Expires, Batch: c.Batch, Timeout: c.Timeout, Concurrency: c.Concurrency,
	}
}
