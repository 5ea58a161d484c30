package cli

import (
	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/control"
)

func newHold(a *connection) *cobra.Command {
	var q control.HoldRequest
	var long durationFlag
	c := &cobra.Command{
		Use:   "hold JAIL",
		Short: "Make a jail only observe, for now",
		Long: `Make a jail decide and record only, for a time or until it is resumed. Bans
that are in force stay; unban --jail lifts them.`,
		Example: `  tailban hold sign-in --for 1h --reason "release"
  tailban resume sign-in`,
		Args: exactArgs(1, "one jail"),
	}
	asJSON := jsonFlag(c)
	c.Flags().Var(&long, "for", "how long: 90s, 5m, 2h, 7d12h; otherwise until it is resumed")
	c.Flags().StringVar(&q.Reason, "reason", "", "why, for those who ask later")
	c.RunE = func(c *cobra.Command, args []string) error {
		q.Jail, q.For = args[0], long.Seconds()
		done, err := a.client().Hold(c.Context(), q)
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, done, func(s *screen, r *control.HoldResult) {
			until := "until it is resumed"
			if q.For > 0 {
				until = "for " + forText(q.For)
			}
			s.printf("%s is held %s (%s)", r.Jail, until, modeText(r))
			showNotes(s, r.Notes)
		})
	}
	return c
}

func newResume(a *connection) *cobra.Command {
	q := control.HoldRequest{Resume: true}
	c := &cobra.Command{
		Use:     "resume JAIL",
		Short:   "Let a jail that is held enforce again",
		Example: `  tailban resume sign-in`,
		Args:    exactArgs(1, "one jail"),
	}
	asJSON := jsonFlag(c)
	c.Flags().StringVar(&q.Reason, "reason", "", "why, for those who ask later")
	c.RunE = func(c *cobra.Command, args []string) error {
		q.Jail = args[0]
		done, err := a.client().Hold(c.Context(), q)
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, done, func(s *screen, r *control.HoldResult) {
			s.printf("%s is no longer held (%s)", r.Jail, modeText(r))
			showNotes(s, r.Notes)
		})
	}
	return c
}

// modeText tells the mode of a jail, before and now.
func modeText(r *control.HoldResult) string {
	if r.Was == r.Mode {
		return "mode " + r.Mode + ", as before"
	}
	return "mode " + r.Mode + ", was " + r.Was
}
