package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/argv"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/daemon"
)

// checkPrograms returns what will likely go wrong with the programs that actions
// run, as far as can be told without running them. user is who must be able to;
// nil: whoever runs this.
func checkPrograms(c *config.Config, user *access.User) (warnings []config.Problem) {
	uid := os.Geteuid()
	if user != nil {
		uid = int(user.UID)
	}
	for _, a := range c.Actions {
		if a.Type == config.TypeCommand {
			warnings = append(warnings, checkCommand(c, &a, user)...)
		}
		if a.Type != config.TypeIptables {
			continue
		}
		key := "type"
		if a.Variant != "" {
			key = "variant"
		}
		at := c.At(0, "actions", a.Name, key)
		path, variant, err := actions.IptablesProgram(actions.IptablesOptions{Variant: a.Variant})
		switch {
		case err != nil:
			at.Msg = "its bans can't be enforced: " + err.Error()
		case variant == actions.VariantLegacy && uid != 0:
			at.Msg = fmt.Sprintf("its bans can't be enforced: %s is iptables-legacy, which works only as root, not as user %d", path, uid)
		default:
			continue
		}
		warnings = append(warnings, at)
	}
	return warnings
}

// checkCommand looks whether the programs are there, and fit to be run by a user;
// nil: by whoever runs this. It says what their bans do while tailban doesn't run.
func checkCommand(c *config.Config, a *config.Action, user *access.User) (warnings []config.Problem) {
	o := daemon.CommandOptions(a)
	if user != nil {
		o.Owner = int(user.UID)
	}
	command, err := actions.NewCommand(o)
	if err == nil {
		err = command.Prepare(context.Background())
	}
	if err == nil && user != nil {
		err = mayRun(a.Command, user)
	}
	at := c.At(0, "actions", a.Name, "type")
	if err != nil {
		at.Msg = "its bans can't be enforced: " + err.Error()
		return []config.Problem{at}
	}
	for _, at.Msg = range command.Warnings() {
		warnings = append(warnings, at)
	}
	return warnings
}

// mayRun reports whether a user may run the programs.
func mayRun(c *config.Command, user *access.User) error {
	for _, p := range []struct {
		verb argv.Verb
		args []string
	}{{argv.Ban, c.Ban}, {argv.Unban, c.Unban}, {argv.Check, c.Check}, {argv.List, c.List}} {
		if len(p.args) == 0 {
			continue
		}
		if err := user.Execute(p.args[0]); err != nil {
			return fmt.Errorf("%s: %w", p.verb, err)
		}
	}
	return nil
}
