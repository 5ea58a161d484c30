package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
)

func newCheck(p *Process, path *string) *cobra.Command {
	var name string
	var groups []string
	var online bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration, and show what would run",
		Long: `Check the configuration, and show what would run. What is allowed but likely
not meant is a warning: among these, files that aren't there, can't be read, will
be refused, are in two logs, or hold another format; an iptables that is
missing, or is one that the user can't use; programs of actions that can't be
run, or that others may change; and secrets that can't be used.

With --user, the files' permissions are compared with what that user may do;
run as root, so that everything can be looked at. The service that comes with
tailban runs as the user tailban. A user that isn't there can be any free number,
with the groups of its unit.

With --online, Cloudflare is asked whether the token is accepted, and what there is
of lists and rules; nothing is changed there.`,
		Example: `  tailban check
  sudo tailban check --user tailban
  sudo tailban check --online`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var who *access.User
			if c.Flags().Changed("user") {
				u, err := access.Lookup(name, groups)
				if err != nil {
					return err
				}
				who = &u
			} else if len(groups) > 0 {
				return usageError{errors.New("--groups are further groups of a --user")}
			}
			cfg, err := config.Load(*path, p.Env)
			if err != nil {
				return err
			}
			for _, w := range slices.Concat(cfg.Warnings(), checkAges(cfg, time.Now()), checkFiles(cfg, *path, who), checkPrograms(cfg, who), checkTokens(cfg, who), checkInstances(cfg, hostName()), checkNotify(cfg, who), checkGroups(cfg)) {
				fmt.Fprintln(p.Err, "warning:", w)
			}
			if err := describe(p.Out, *path, cfg); err != nil || !online {
				return err
			}
			return lookOnline(c.Context(), p, cfg)
		},
	}
	c.Flags().BoolVar(&online, "online", false, "ask Cloudflare, too; nothing is changed there")
	c.Flags().StringVar(&name, "user", "", "tell whether this `user` (name or number) can read the files")
	c.Flags().StringSliceVar(&groups, "groups", nil, "further `groups` of the user")
	return c
}

// describe writes what a configuration would do.
func describe(w io.Writer, path string, c *config.Config) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is good.\n\nLogs\n", path)
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, l := range c.Logs {
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", l.Name, l.FormatName(), sourceNow(&l))
	}
	tw.Flush()
	fmt.Fprintln(&b, "\nJails")
	for i := range c.Jails {
		j := &c.Jails[i]
		fmt.Fprintf(tw, "  %s\ton %s\tmore than %d in %s\tban %s\t%s\n", j.Name, strings.Join(j.Logs, ", "),
			j.Limit, config.FormatDuration(j.Window), config.FormatLadder(j.Ban), effect(j.Observe, j.Actions))
		for _, text := range []string{whereText(&j.Where), overridesText(j.Overrides), rememberText(j.Ban, j.Remember)} {
			if text != "" {
				fmt.Fprintf(tw, "  \t%s\n", text)
			}
		}
	}
	if d := c.Deny; d != nil {
		fmt.Fprintf(tw, "  %s\t%s\tat first sight\tban %s\t%s\n", detector.DenyName, deniedText(d),
			config.FormatLadder(d.Ban), effect(d.Observe, d.Actions))
		if text := rememberText(d.Ban, d.Remember); text != "" {
			fmt.Fprintf(tw, "  \t%s\n", text)
		}
	}
	tw.Flush()
	if c.SharedHistory {
		fmt.Fprintln(&b, "  A client's offences count together, whichever of these they were against.")
	}
	fmt.Fprintln(&b, "\nActions")
	for _, a := range c.Actions {
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", a.Name, a.Type, actionText(&a))
	}
	tw.Flush()
	if len(c.Notify) > 0 {
		fmt.Fprintln(&b, "\nNotify")
		describeNotify(tw, c)
		tw.Flush()
	}
	if len(c.Wanted) > 0 {
		fmt.Fprintln(&b, "\nWanted")
		for i := range c.Wanted {
			m := &c.Wanted[i]
			fmt.Fprintf(tw, "  %s\tagent %s\t%s\n", m.Name, quoteAll(m.Agents), passText(m))
			for _, proof := range proofs(c, m) {
				fmt.Fprintf(tw, "  \t%s\n", proof)
			}
		}
		tw.Flush()
	}
	fmt.Fprintln(&b, "\nLists")
	fmt.Fprintf(tw, "  trusted_proxies\t%s\n", plural(len(c.TrustedProxies), "range"))
	fmt.Fprintf(tw, "  allow\t%s\n", plural(len(c.Allow), "range"))
	if len(c.AllowHosts) > 0 {
		fmt.Fprintf(tw, "  \t%s, looked up while the daemon runs: %s\n", plural(len(c.AllowHosts), "host name"), strings.Join(c.AllowHosts, ", "))
	}
	for _, l := range c.Lists {
		if !ofWanted(l.Key) {
			fmt.Fprintf(tw, "  %s\t%s, in %s\n", l.Path, plural(l.Entries, "range"), l.Key)
		}
	}
	for _, l := range c.Providers {
		if !ofWanted(l.Key) {
			fmt.Fprintf(tw, "  %s\t%s: %s\n", l.Name, plural(len(l.Prefixes), "range"), originText(&l))
		}
	}
	if !c.ProtectSessions {
		fmt.Fprintf(tw, "  protect_sessions\toff: who is logged in by SSH can be banned\n")
	}
	tw.Flush()
	fmt.Fprintf(&b, "\nState in %s\n", c.StateDir)
	_, err := io.WriteString(w, b.String())
	return err
}

// maxOverrides is how many networks of a jail are named.
const maxOverrides = 3

// overridesText writes other limits, those of the file's first networks.
func overridesText(overrides []detector.Override) string {
	var parts []string
	for _, o := range overrides[:min(len(overrides), maxOverrides)] {
		parts = append(parts, fmt.Sprintf("more than %d from %s", o.Limit, o.From))
	}
	if n := len(overrides) - maxOverrides; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more networks with limits of their own", n))
	}
	return strings.Join(parts, ", ")
}

// rememberText tells how long offences count, where that makes a difference.
func rememberText(ladder []time.Duration, remember time.Duration) string {
	if len(ladder) < 2 {
		return ""
	}
	return "offences are forgotten " + config.FormatDuration(remember) + " after the latest"
}

// deniedText tells who is denied.
func deniedText(d *detector.Deny) string {
	var parts []string
	if len(d.Agents) > 0 {
		parts = append(parts, "agents "+quoteAll(d.Agents))
	}
	if len(d.From) > 0 {
		parts = append(parts, plural(len(d.From), "range"))
	}
	return strings.Join(parts, ", ")
}

// maxNamed is how many of the files that a pattern matches are named.
const maxNamed = 5

// sourceNow tells where a log's lines come from.
func sourceNow(l *config.Log) string {
	if len(l.Files) > 0 {
		return filesNow(l.Files)
	}
	return l.Source()
}

// filesNow tells what a log's patterns match at this moment.
func filesNow(patterns []string) string {
	var parts []string
	for _, p := range patterns {
		found, err := source.Match(p)
		switch {
		case err != nil || len(found) == 0:
			parts = append(parts, p+" (not there yet)")
		case len(found) == 1 && found[0] == p:
			parts = append(parts, p)
		default:
			names := slices.Clone(found[:min(len(found), maxNamed)])
			if n := len(found) - maxNamed; n > 0 {
				names = append(names, fmt.Sprintf("%d more", n))
			}
			parts = append(parts, fmt.Sprintf("%s (now %s)", p, strings.Join(names, ", ")))
		}
	}
	return strings.Join(parts, ", ")
}

func effect(observe bool, actions []string) string {
	if observe {
		return "observe only"
	}
	return "by " + strings.Join(actions, ", ")
}

func actionText(a *config.Action) string {
	switch {
	case a.Command != nil:
		return fmt.Sprintf("by %s, compared every %s", a.Command.Ban[0], config.FormatDuration(a.Reconcile))
	case a.Cloudflare != nil:
		c := a.Cloudflare
		text := fmt.Sprintf("list %s of account %s, written every %s, compared every %s", c.List, c.Account, config.FormatDuration(c.SyncEvery), config.FormatDuration(a.Reconcile))
		if n := len(c.Zones); n > 0 {
			text += fmt.Sprintf(", rule in %s: %s, renewed for %s", plural(n, "zone"), c.RuleAction, config.FormatDuration(c.Lease))
		}
		return text
	case !a.Kernel():
		return "bans are logged, nothing is enforced"
	}
	ports := "all ports"
	if !a.AllPorts {
		ports = "ports " + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(a.Ports)), ", "), "[]")
	}
	text := fmt.Sprintf("%s, %s, compared every %s", a.Place(), ports, config.FormatDuration(a.Reconcile))
	if a.CutConnections {
		text += ", open connections are cut"
	}
	if a.Merge > 0 {
		text += fmt.Sprintf(", networks of %d banned members are banned as one", a.Merge)
	}
	return text
}

// whereText writes conditions as a person would say them.
func whereText(w *detector.Where) string {
	var parts []string
	add := func(c *detector.Conditions, not string) {
		if len(c.Methods) > 0 {
			parts = append(parts, not+"method "+strings.Join(c.Methods, " or "))
		}
		if len(c.Paths) > 0 {
			parts = append(parts, not+"path "+joinText(c.Paths))
		}
		if len(c.Status) > 0 {
			parts = append(parts, not+"status "+joinText(c.Status))
		}
		if len(c.Agents) > 0 {
			parts = append(parts, not+"agent "+quoteAll(c.Agents))
		}
		if len(c.Protocols) > 0 {
			parts = append(parts, not+"protocol "+strings.Join(c.Protocols, " or "))
		}
		if c.FalseCrawler {
			parts = append(parts, not+"false crawler")
		}
	}
	add(&w.Match, "")
	add(&w.Not, "not ")
	if len(parts) == 0 {
		return ""
	}
	return "where " + strings.Join(parts, ", ")
}

func joinText[T fmt.Stringer](items []T) string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = x.String()
	}
	return strings.Join(out, " or ")
}

func quoteAll(items []string) string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = fmt.Sprintf("%q", x)
	}
	return strings.Join(out, " or ")
}
