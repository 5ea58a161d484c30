package daemon

import (
	"fmt"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/control"
)

// overdueText tells of bans that are over and still enforced.
func overdueText(n int, err string) string {
	are := "bans are"
	if n == 1 {
		are = "ban is"
	}
	return fmt.Sprintf("%d %s over, and can't be taken out%s", n, are, orText(err))
}

// overdueChanged tells those who follow events when bans of an action are
// overdue, and when none is any longer.
func (d *daemon) overdueChanged(name string) func(actions.Overdue) {
	where := "action " + name + ": "
	return func(o actions.Overdue) {
		if o.Count > 0 {
			d.hub.begins(o.Since, aboutOverdue(name), where+overdueText(o.Count, o.Err.Error()))
		} else {
			d.hub.ends(o.Since, where+"no ban is enforced beyond its end any longer", aboutOverdue(name))
		}
	}
}

func aboutOverdue(action string) string { return "action " + action + ": overdue" }

func fillOverdue(a *control.ActionStatus, o actions.Overdue) {
	if o.Count > 0 {
		a.Overdue, a.OverdueSince, a.OverdueErr = o.Count, utc(o.Since), o.Err.Error()
	}
}

// fillOverdue adds the bans of an address that are over and that actions still
// hold.
func (d *daemon) fillOverdue(x *control.Explanation) {
	for _, e := range d.enforcers() {
		o, ok := e.action.(actions.Overstayer)
		if !ok {
			continue
		}
		for _, b := range o.OverdueAt(x.Address) {
			x.Overdue = append(x.Overdue, control.OverdueBan{Action: e.name, Target: b.Target, Err: b.Err.Error()})
		}
	}
}
