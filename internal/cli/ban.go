package cli

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
)

func newBan(a *connection) *cobra.Command {
	var q control.BanRequest
	var long durationFlag
	c := &cobra.Command{
		Use:   "ban ADDRESS|RANGE",
		Short: "Ban an address or a range by hand",
		Long: `Ban an address or a range. An IPv6 address stands for its network, as in a
jail; write its /128 for the address alone. Without --for the ban is as long as
the jail's first one, or an hour without --jail. A protected target is refused,
whatever the flags.`,
		Example: `  tailban ban 203.0.113.66
  tailban ban 203.0.113.0/24 --for 2h --reason "ticket 4711"
  tailban ban 2001:db8::1/128 --jail sign-in`,
		Args: exactArgs(1, "one address or range"),
	}
	asJSON := jsonFlag(c)
	c.Flags().Var(&long, "for", "how long: 90s, 5m, 2h, 7d12h")
	c.Flags().StringVar(&q.Jail, "jail", "", "as if this `jail` had banned it, by its actions; otherwise by all actions")
	c.Flags().StringVar(&q.Reason, "reason", "", "why, for those who ask later")
	c.Flags().BoolVar(&q.Force, "force", false, "even if the range is wider than /16, or than /32 for IPv6")
	c.RunE = func(c *cobra.Command, args []string) error {
		var err error
		if q.Target, err = a.target(args[0]); err != nil {
			return err
		}
		q.For = long.Seconds()
		done, err := a.client().Ban(c.Context(), q)
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, done, showBan)
	}
	return c
}

func showBan(s *screen, r *control.BanResult) {
	how := "; no action enforces it"
	if len(r.Actions) > 0 {
		how = " by " + commas(r.Actions)
	}
	s.print(words.Target(r.Target), " is banned until ", clock(r.Until), " UTC", how)
	if n := len(r.Absorbed); n > 0 {
		s.printf("  part of it now: %s inside it, %s", many(n, "ban"), someTargets(r.Absorbed, n))
	}
	showNotes(s, r.Notes)
}

// maxTargets is how many targets are named one by one.
const maxTargets = 10

// someTargets names the first of so many targets, of which some are known.
func someTargets(known []netip.Prefix, total int) string {
	var names []string
	for _, p := range known[:min(len(known), maxTargets)] {
		names = append(names, words.Target(p))
	}
	if n := total - len(names); n > 0 {
		names = append(names, words.Thousands(n)+" more")
	}
	return commas(names)
}

func showNotes(s *screen, notes []string) {
	for _, x := range notes {
		s.print("  ", x)
	}
}

func newUnban(a *connection) *cobra.Command {
	var q control.UnbanRequest
	var forgive durationFlag
	c := &cobra.Command{
		Use:   "unban ADDRESS|RANGE | --jail JAIL | --all",
		Short: "Lift bans, and forget what led to them",
		Long: `Lift the bans of an address or a range and those inside it, those that a jail
wants, or all. What led to them is forgotten: counts and offences. A ban that
others want as well stays. With --forgive the target's events don't count for
that long, and can't ban it again.`,
		Example: `  tailban unban 203.0.113.66
  tailban unban 203.0.113.66 --forgive 1d --reason "the office's new backup"
  tailban unban --jail scanner
  tailban unban --all`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError{fmt.Errorf("%s takes one address or range at most, but got %s", c.CommandPath(), plural(len(args), "argument"))}
			case len(args) == 0 && !q.All && q.Jail == "":
				return usageError{errors.New("unban needs an address, a range, --jail or --all")}
			case q.All && (q.Jail != "" || len(args) > 0):
				return usageError{errors.New("--all lifts every ban: it goes with no address, no range and no --jail")}
			}
			return nil
		},
	}
	asJSON := jsonFlag(c)
	c.Flags().StringVar(&q.Jail, "jail", "", "only what this `jail` wants")
	c.Flags().BoolVar(&q.All, "all", false, "every ban")
	c.Flags().Var(&forgive, "forgive", "how long its events don't count: 90s, 5m, 2h, 7d12h")
	c.Flags().StringVar(&q.Reason, "reason", "", "why, for those who ask later")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			var err error
			if q.Target, err = a.target(args[0]); err != nil {
				return err
			}
		}
		q.Forgive = forgive.Seconds()
		done, err := a.client().Unban(c.Context(), q)
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, done, showUnban)
	}
	return c
}

func showUnban(s *screen, r *control.UnbanResult) {
	text := many(r.Lifted, "ban") + " lifted"
	if len(r.Targets) > 0 {
		text += ": " + someTargets(r.Targets, r.Lifted)
	}
	s.print(text)
	if r.Kept > 0 {
		s.printf("  kept, since others want them: %s", words.Thousands(r.Kept))
	}
	if r.Cleared > 0 {
		s.printf("  counters and offences forgotten: %s", words.Thousands(r.Cleared))
	}
	showNotes(s, r.Notes)
}
