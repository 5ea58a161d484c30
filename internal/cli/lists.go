package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/lists"
)

func newLists(p *Process, path *string) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "lists",
		Short: "Show the lists of addresses that the configuration uses",
		Long: `Show the lists of addresses that the configuration uses, those of providers
that are built in and those in files: how many ranges they have, of which day
they are, where they are from, and what they are used for.

With --all, show every provider whose ranges are built in; no configuration is
needed for that.`,
		Example: `  tailban lists
  tailban lists --all`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.Load(*path, p.Env)
			if all && errors.Is(err, fs.ErrNotExist) {
				cfg, err = config.Builtin(), nil
			}
			if err != nil {
				return err
			}
			return showLists(p.Out, cfg, all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show all providers whose ranges are built in")
	return c
}

// list is a list of addresses, for a person.
type list struct {
	name   string
	ranges int
	date   string
	from   string
	users  []string // keys of the configuration
}

// usedLists are the lists that a configuration uses, each once: providers first,
// by name.
func usedLists(c *config.Config) []list {
	var out []list
	add := func(l list, key string) {
		i := slices.IndexFunc(out, func(x list) bool { return x.name == l.name })
		if i < 0 {
			i = len(out)
			out = append(out, l)
		}
		if !slices.Contains(out[i].users, key) {
			out[i].users = append(out[i].users, key)
		}
	}
	for _, x := range c.Providers {
		if p, ok := lists.Lookup(x.Name); ok {
			add(ofProvider(p), x.Key)
		}
	}
	slices.SortFunc(out, func(a, b list) int { return strings.Compare(a.name, b.name) })
	for _, x := range c.Lists {
		add(list{name: x.Path, ranges: x.Entries, date: x.Date, from: "file"}, x.Key)
	}
	return out
}

func ofProvider(p *lists.Provider) list {
	return list{name: p.Name, ranges: len(p.Prefixes), date: p.Date, from: strings.Join(p.Sources, " ")}
}

func showLists(w io.Writer, c *config.Config, all bool) error {
	used := usedLists(c)
	if all {
		for _, name := range lists.Names() {
			if p, ok := lists.Lookup(name); ok && !slices.ContainsFunc(used, func(x list) bool { return x.name == name }) {
				used = append(used, ofProvider(p))
			}
		}
	}
	if len(used) == 0 {
		_, err := fmt.Fprintln(w, "The configuration uses no list; tailban lists --all shows those that are built in.")
		return err
	}
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "name\tranges\tof\tused in\tfrom")
	for _, x := range used {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\n", x.name, x.ranges, orDash(x.date), orDash(strings.Join(x.users, ", ")), x.from)
	}
	tw.Flush()
	_, err := io.WriteString(w, b.String())
	return err
}

// oldList is the age from which a list is warned of.
const oldList = 365 * 24 * time.Hour

// checkAges returns which lists are so old that they are likely wrong by now.
func checkAges(c *config.Config, now time.Time) (warnings []config.Problem) {
	for _, x := range usedLists(c) {
		of, err := time.Parse(time.DateOnly, x.date)
		if err != nil || now.Sub(of) < oldList {
			continue
		}
		do := "get a newer one"
		if x.from != "file" {
			do = "a newer tailban may have newer ones, or else a file: " + x.from
		}
		for _, key := range x.users {
			w := c.At(0, strings.Split(key, ".")...)
			w.Key = key
			w.Msg = fmt.Sprintf("the ranges of %s are of %s, more than a year old: %s", x.name, x.date, do)
			warnings = append(warnings, w)
		}
	}
	return warnings
}
