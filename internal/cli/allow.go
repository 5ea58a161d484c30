package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
)

func newAllow(a *connection) *cobra.Command {
	var q control.AllowRequest
	var long durationFlag
	c := &cobra.Command{
		Use:   "allow ADDRESS|RANGE --for TIME | --end ADDRESS|RANGE",
		Short: "Let somebody pass for a while",
		Long: `Let an address or a range pass for a while, at most 30 days, as if it were in
"allow" of the configuration: it is not counted and not banned, and bans of it
end. An IPv6 address stands for its network. --end ends it early.`,
		Example: `  tailban allow 198.51.100.7 --for 2h --reason "load test"
  tailban allow --end 198.51.100.7`,
		Args: func(c *cobra.Command, args []string) error {
			if err := exactArgs(1, "one address or range")(c, args); err != nil {
				return err
			}
			switch given := c.Flags().Changed("for"); {
			case q.End && given:
				return usageError{errors.New("--end takes no --for: it ends at once")}
			case !q.End && !given:
				return usageError{errors.New("allow needs --for, such as --for 2h; for good is \"allow\" of the configuration")}
			}
			return nil
		},
	}
	asJSON := jsonFlag(c)
	c.Flags().Var(&long, "for", "how long: 90s, 5m, 2h, 7d12h")
	c.Flags().BoolVar(&q.End, "end", false, "end it instead")
	c.Flags().StringVar(&q.Reason, "reason", "", "why, for those who ask later")
	c.RunE = func(c *cobra.Command, args []string) error {
		var err error
		if q.Target, err = a.target(args[0]); err != nil {
			return err
		}
		q.For = long.Seconds()
		done, err := a.client().Allow(c.Context(), q)
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, done, func(s *screen, r *control.AllowResult) {
			if q.End {
				s.print(words.Target(r.Target), " no longer passes")
				return
			}
			s.print(words.Target(r.Target), " passes until ", clock(r.Until), " UTC")
			if r.Lifted > 0 {
				s.printf("  %s lifted", many(r.Lifted, "ban"))
			}
			showNotes(s, r.Notes)
		})
	}
	return c
}
