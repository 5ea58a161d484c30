package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
)

func newBans(a *connection) *cobra.Command {
	var q control.BansQuery
	c := &cobra.Command{
		Use:   "bans [ADDRESS|RANGE]",
		Short: "List who is banned, by whom, and for how much longer",
		Long: `List bans: all, or those that share addresses with an address or a range.
"seen" is how many requests of the target have reached the server since the
ban, "packets" how many packets the actions have turned away.`,
		Example: `  tailban bans
  tailban bans 203.0.113.0/24 --jail sign-in
  tailban bans --sort packets --limit 20
  tailban bans --json | jq -r '.bans[].target'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("%s takes one address or range at most, but got %s", c.CommandPath(), plural(len(args), "argument"))}
			}
			return nil
		},
	}
	asJSON := jsonFlag(c)
	c.Flags().StringVar(&q.Jail, "jail", "", "only bans that this `jail` wants")
	c.Flags().StringVar(&q.Action, "action", "", "only bans that this `action` enforces")
	c.Flags().StringVar(&q.Sort, "sort", control.Sorts()[0], "the `order`: "+strings.Join(control.Sorts(), ", "))
	c.Flags().IntVar(&q.Limit, "limit", 0, "at most this `number`; 0: all")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !slices.Contains(control.Sorts(), q.Sort) {
			return usageError{fmt.Errorf("--sort is one of %s, not %q", strings.Join(control.Sorts(), ", "), q.Sort)}
		}
		if q.Limit < 0 {
			return usageError{fmt.Errorf("--limit is 0 or more, not %d", q.Limit)}
		}
		if len(args) == 1 {
			var err error
			if q.Overlap, err = network(args[0]); err != nil {
				return err
			}
		}
		found, err := a.client().Bans(c.Context(), q)
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, found, showBans)
	}
	return c
}

func showBans(s *screen, b *control.Bans) {
	if len(b.Bans) > 0 {
		t := &table{head: []string{"target", "jail", "left", "since", "offence", "packets", "seen"}, shrink: []int{1}}
		for i := range b.Bans {
			x := &b.Bans[i]
			offence := 0
			var jails []string
			for _, o := range x.Owners {
				offence = max(offence, o.Offence)
				jails = append(jails, o.Jail)
			}
			t.row(words.Target(x.Target), strings.Join(jails, ", "), left(b.Now, x.Until), ago(b.Now, x.Since),
				offence, packetsText(x), words.Thousands(x.Seen))
			noteBan(t, x)
		}
		t.write(s)
	}
	switch {
	case b.Total == 0:
		s.print("no bans")
	case len(b.Bans) < b.Total:
		s.printf("%s of %s", words.Thousands(len(b.Bans)), many(b.Total, "ban"))
	default:
		s.print(many(b.Total, "ban"))
	}
}

// packetsText adds up what actions have turned away, if any of them counts.
func packetsText(b *control.Ban) styled {
	if b.Observed {
		return styled{"observed", odd}
	}
	if b.Waiting {
		return styled{"waits", odd}
	}
	sum, counted := uint64(0), false
	for _, x := range b.Actions {
		if x.Packets != nil {
			sum, counted = sum+*x.Packets, true
		}
	}
	if !counted {
		return styled{"-", plain}
	}
	return styled{words.Thousands(sum), plain}
}

// noteBan tells what is unusual about a ban: where it is not in force, and
// who wanted it by hand.
func noteBan(t *table, b *control.Ban) {
	for _, x := range b.Actions {
		if x.Held != nil && !*x.Held {
			t.note("not in force at %s", x.Action)
		}
		if x.Network.IsValid() {
			t.note("at %s as part of %s", x.Action, x.Network)
		}
	}
	for _, o := range b.Owners {
		if text := reasonText(o.Reason, o.By); text != "" {
			t.note("%s%s", o.Jail, text)
		}
	}
}
