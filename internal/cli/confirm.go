package cli

import (
	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/control"
)

func newConfirm(a *connection) *cobra.Command {
	c := &cobra.Command{
		Use:   "confirm",
		Short: "Say that a start with run --confirm is right",
		Long: `Say that a start with run --confirm is right: from then on bans last as long as
they should. Until somebody does, every ban ends at the deadline, so that who has
locked himself out only has to wait.`,
		Example: `  tailban run --confirm 10m
  tailban confirm`,
		Args: noArgs,
	}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		done, err := a.client().Confirm(c.Context())
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, done, func(s *screen, r *control.ConfirmResult) {
			switch {
			case r.Deadline.IsZero():
				s.print("there is nothing to confirm")
			case r.Late:
				s.print("confirmed; the deadline had passed, and bans are in force again")
			default:
				s.print("confirmed; bans last as long as they should")
			}
		})
	}
	return c
}
