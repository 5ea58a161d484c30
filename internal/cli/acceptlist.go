package cli

import (
	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/control"
)

func newAcceptList(a *connection) *cobra.Command {
	var q control.AcceptListRequest
	c := &cobra.Command{
		Use:   "accept NAME",
		Short: "Use ranges of a provider that were fetched and wait",
		Long: `Use ranges of a provider that the daemon has fetched and doesn't use unasked:
they differ from those before by more than half, or add to whom
trusted_proxies believes. What is fetched later is compared with these.

tailban lists shows what waits, with its id. With --id, nothing is accepted if
something else waits by now.`,
		Example: `  tailban lists accept cloudflare --id 1f3870be --reason "announced on their blog"`,
		Args:    exactArgs(1, "one provider"),
	}
	asJSON := jsonFlag(c)
	c.Flags().StringVar(&q.ID, "id", "", "accept only the ranges with this id")
	c.Flags().StringVar(&q.Reason, "reason", "", "why, for those who ask later")
	c.RunE = func(c *cobra.Command, args []string) error {
		q.Name = args[0]
		done, err := a.client().AcceptList(c.Context(), q)
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, done, func(s *screen, r *control.AcceptListResult) {
			s.printf("%s: accepted, %s added and %d removed", r.Name, many(r.Added, "range"), r.Removed)
			showNotes(s, r.Notes)
		})
	}
	return c
}
