package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
)

func newReload(a *connection) *cobra.Command {
	c := &cobra.Command{
		Use:   "reload",
		Short: "Have the daemon read its configuration again",
		Long: `Have the daemon read its configuration again, and go on with it. Nothing that
is counted or banned is lost. If the configuration has problems they are shown,
as check does, the exit code is 1, and the daemon goes on with what it has.`,
		Example: `  tailban check && tailban reload`,
		Args:    noArgs,
	}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		done, err := a.client().Reload(c.Context())
		if err != nil {
			a.explainAbsence(err)
			return err
		}
		if !*asJSON {
			for _, w := range done.Warnings {
				fmt.Fprintln(a.p.Err, "warning:", asWritten(w))
			}
		}
		return answer(a.p, *asJSON, done, showReload)
	}
	return c
}

// explainAbsence shows the problems of the configuration, if no daemon answers:
// it may be another folder that it names for the sockets.
func (a *connection) explainAbsence(err error) {
	var problems config.Problems
	if exitCode(err) != exitNoDaemon {
		return
	}
	if _, bad := config.Load(*a.config, a.p.Env); errors.As(bad, &problems) {
		for _, x := range problems {
			fmt.Fprintln(a.p.Err, x)
		}
		a.say("the configuration has these problems; if its runtime_dir can't be read for them, --socket-dir names the folder of the daemon's sockets")
	}
}

func showReload(s *screen, r *control.ReloadResult) {
	if len(r.Changes) == 0 && len(r.Restart) == 0 {
		s.print("reloaded; nothing has changed")
		return
	}
	s.printf("reloaded; %s", plural(len(r.Changes), "change"))
	showNotes(s, r.Changes)
	if len(r.Restart) > 0 {
		s.print(styled{"these count only after a restart:", odd})
		showNotes(s, r.Restart)
	}
}
