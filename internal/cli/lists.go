package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/lists"
	"github.com/tailban/tailban/internal/lists/refresh"
	"github.com/tailban/tailban/internal/term"
)

func newLists(a *connection) *cobra.Command {
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "lists",
		Short: "Show the lists of addresses that the configuration uses",
		Long: `Show the lists of addresses that the configuration uses, those of providers
and those in files: how many ranges they have, of which day they are, where they
are from, and what they are used for. Of those that are refreshed, show as well
when they are fetched again, what failed, and what waits to be accepted. That
is read from the state folder, so that only root and the daemon's user see it.

With --all, show every provider whose ranges are built in; no configuration is
needed for that.`,
		Example: `  tailban lists
  tailban lists --all
  tailban lists --json | jq '.[] | select(.waiting) | {name, waiting}'`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.Load(*a.config, a.p.Env)
			if all && errors.Is(err, fs.ErrNotExist) {
				cfg, err = config.Builtin(), nil
			}
			if err != nil {
				return err
			}
			found, problems := usedLists(cfg)
			for _, x := range problems {
				fmt.Fprintln(a.p.Err, "warning:", x)
			}
			if all {
				found = withAll(found)
			}
			if asJSON {
				return writeJSON(a.p.Out, found)
			}
			return showLists(a.p.Out, found)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show all providers whose ranges are built in")
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON, with all ranges that wait")
	c.AddCommand(newAcceptList(a))
	return c
}

// list is a list of addresses, for a person or a program.
type list struct {
	Name     string       `json:"name"`
	Ranges   int          `json:"ranges"`
	Date     string       `json:"date,omitempty"`
	From     string       `json:"from"` // "built in", "fetched" or "file"
	Sources  []string     `json:"sources"`
	UsedIn   []string     `json:"used_in"` // keys of the configuration
	Checked  time.Time    `json:"checked,omitzero"`
	Next     time.Time    `json:"next,omitzero"`
	Err      string       `json:"error,omitempty"`
	Since    time.Time    `json:"since,omitzero"` // of failing
	Failures int          `json:"failures,omitempty"`
	Waiting  *waitingList `json:"waiting,omitempty"`

	refreshed bool
}

// waitingList is what waits to be accepted.
type waitingList struct {
	ID      string         `json:"id"`
	Why     string         `json:"why"`
	Since   time.Time      `json:"since"`
	Added   []netip.Prefix `json:"added"`
	Removed []netip.Prefix `json:"removed"`
}

const fromFile = "file"

// usedLists are the lists that a configuration uses, each once: providers first,
// by name. problems are why something about them can't be told.
func usedLists(c *config.Config) (out []list, problems []error) {
	out = []list{}
	add := func(l list, key string) {
		i := slices.IndexFunc(out, func(x list) bool { return x.Name == l.Name })
		if i < 0 {
			i = len(out)
			out = append(out, l)
		}
		if !slices.Contains(out[i].UsedIn, key) {
			out[i].UsedIn = append(out[i].UsedIn, key)
		}
	}
	for _, x := range c.Providers {
		add(ofProvider(x.Name, len(x.Prefixes), x.Snapshot, x.Fetched, c.Sources(x.Name)), x.Key)
	}
	slices.SortFunc(out, func(a, b list) int { return strings.Compare(a.Name, b.Name) })
	for _, l := range c.Refreshed() {
		i := slices.IndexFunc(out, func(x list) bool { return x.Name == l.Name })
		built, ok := lists.Lookup(l.Name)
		if i < 0 || !ok {
			continue
		}
		stored, err := lists.Load(c.StateDir, l.Name)
		if err != nil {
			problems = append(problems, fmt.Errorf("what was fetched of %s can't be used: %w", l.Name, err))
		}
		out[i].refreshedAs(refresh.StatusOf(refresh.List(l), built, stored))
	}
	for _, x := range c.Lists {
		add(list{Name: x.Path, Ranges: x.Entries, Date: x.Date, From: fromFile, Sources: []string{}}, x.Key)
	}
	return out, problems
}

// refreshedAs tells how it is kept current.
func (l *list) refreshedAs(s refresh.Status) {
	l.refreshed, l.Checked, l.Next = true, s.Stored.Checked, s.Stored.Next
	if f := s.Stored.Failing; f != nil {
		l.Err, l.Since, l.Failures = f.Err, f.Since, f.Times
	}
	if w := s.Stored.Waiting; w != nil {
		l.Waiting = &waitingList{ID: w.ID, Why: w.Why, Since: w.Since, Added: nonNil(s.Pending.Added), Removed: nonNil(s.Pending.Removed)}
	}
}

func ofProvider(name string, ranges int, date string, fetched bool, sources []string) list {
	from := "built in"
	if fetched {
		from = "fetched"
	}
	return list{Name: name, Ranges: ranges, Date: date, From: from, Sources: sources, UsedIn: []string{}}
}

// withAll adds the providers that aren't used.
func withAll(used []list) []list {
	for _, name := range lists.Names() {
		if p, ok := lists.Lookup(name); ok && !slices.ContainsFunc(used, func(x list) bool { return x.Name == name }) {
			used = append(used, ofProvider(p.Name, len(p.Prefixes), p.Date, false, p.Sources))
		}
	}
	return used
}

func showLists(w io.Writer, found []list) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "The configuration uses no list; tailban lists --all shows those that are built in.")
		return err
	}
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "name\tranges\tof\tused in\tfrom")
	for i := range found {
		x := &found[i]
		from := strings.Join(x.Sources, " ")
		if x.From == fromFile {
			from = fromFile
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\n", x.Name, x.Ranges, orDash(x.Date), orDash(strings.Join(x.UsedIn, ", ")), from)
	}
	tw.Flush()
	if slices.ContainsFunc(found, func(x list) bool { return x.refreshed }) {
		fmt.Fprintln(tw, "\nrefreshed\tin use\tfetched last\tnext")
		for i := range found {
			if x := &found[i]; x.refreshed {
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", x.Name, x.From, timeOrDash(x.Checked), timeOrDash(x.Next))
			}
		}
		tw.Flush()
	}
	for i := range found {
		showTroubles(&b, &found[i])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// showTroubles tells what failed, and what waits.
func showTroubles(b *strings.Builder, x *list) {
	if x.Err != "" {
		fmt.Fprintf(b, "\n%s can't be fetched since %s (tried %s): %s\n", x.Name, clock(x.Since), many(x.Failures, "time"), term.Escape(x.Err))
	}
	if w := x.Waiting; w != nil {
		fmt.Fprintf(b, "\n%s waits to be accepted since %s: %s\n", x.Name, clock(w.Since), w.Why)
		fmt.Fprintf(b, "  adds %s\n  removes %s\n  to use it: tailban lists accept %s --id %s\n", rangesText(w.Added), rangesText(w.Removed), x.Name, w.ID)
	}
}

// nonNil is what JSON writes as a list also if there is nothing in it.
func nonNil(ranges []netip.Prefix) []netip.Prefix { return append([]netip.Prefix{}, ranges...) }

// maxRangesShown is how many ranges are named.
const maxRangesShown = 5

// rangesText names ranges, the widest first.
func rangesText(ranges []netip.Prefix) string {
	if len(ranges) == 0 {
		return "nothing"
	}
	var parts []string
	for _, p := range lists.Widest(ranges, maxRangesShown) {
		parts = append(parts, p.String())
	}
	text := strings.Join(parts, ", ")
	if n := len(ranges) - maxRangesShown; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

func timeOrDash(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return clock(t)
}

// oldList is the age from which a list is warned of.
const oldList = 365 * 24 * time.Hour

// checkAges returns which lists are so old that they are likely wrong by now.
func checkAges(c *config.Config, now time.Time) (warnings []config.Problem) {
	used, _ := usedLists(c)
	for _, x := range used {
		of, err := time.Parse(time.DateOnly, x.Date)
		if err != nil || now.Sub(of) < oldList {
			continue
		}
		do := "get a newer one"
		switch {
		case x.refreshed:
			do = "tailban lists shows why they can't be fetched"
		case x.From != fromFile:
			do = "lists.refresh keeps them current, or a newer tailban may have newer ones, or else a file: " + strings.Join(x.Sources, " ")
		}
		for _, key := range x.UsedIn {
			w := c.At(0, strings.Split(key, ".")...)
			w.Key = key
			w.Msg = fmt.Sprintf("the ranges of %s are of %s, more than a year old: %s", x.Name, x.Date, do)
			warnings = append(warnings, w)
		}
	}
	return warnings
}

// originText tells where a provider's ranges are from, and of which day they are.
func originText(p *config.Provider) string {
	if p.Fetched {
		return "fetched, as of " + p.Snapshot
	}
	return "built in, as of " + p.Snapshot
}

// noteFetched tells which ranges are used, where these can be other than those
// built in.
func noteFetched(w io.Writer, c *config.Config) {
	if c.Refresh == 0 {
		return
	}
	_, problems := usedLists(c)
	for _, x := range problems {
		fmt.Fprintln(w, "warning:", x)
	}
	told := map[string]bool{}
	for i := range c.Providers {
		if p := &c.Providers[i]; !told[p.Name] {
			told[p.Name] = true
			fmt.Fprintf(w, "ranges of %s: %s\n", p.Name, originText(p))
		}
	}
}
