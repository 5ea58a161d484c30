package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/words"
)

// offlineLine explains a line by a configuration alone, without a daemon.
type offlineLine func(*config.Config, control.LineQuery) (*control.LineExplanation, error)

// newExplain makes the command. If offline is nil, lines are explained by a
// running daemon only.
func newExplain(a *connection, offline offlineLine) *cobra.Command {
	var q control.LineQuery
	c := &cobra.Command{
		Use:   "explain ADDRESS | --line LINE --log LOG",
		Short: "Say why an address is banned, or isn't",
		Long: `Say all that is known of an address: whether it is banned, by whom and for
which line, what the actions really hold, how full its windows are, what is
remembered of it, and what the latest lines of the logs show.

With --line, take a line of a log through the order of exceptions, without
counting it: its fields, the client behind the proxies, where it stops, and
what each jail makes of it. "--line -" reads it from standard input.`,
		Example: `  tailban explain 203.0.113.66
  tail -n 1 /var/log/nginx/access.log | tailban explain --log nginx --line -`,
		Args: func(c *cobra.Command, args []string) error {
			line := c.Flags().Changed("line")
			switch {
			case line && len(args) > 0:
				return usageError{errors.New("explain takes an address or --line, not both")}
			case !line && c.Flags().Changed("log"):
				return usageError{errors.New("--log goes with --line")}
			case line && !c.Flags().Changed("log"):
				return usageError{errors.New("--line needs --log, the log of the configuration that the line is of")}
			case line:
				return nil
			}
			return exactArgs(1, "one address, or --line")(c, args)
		},
	}
	asJSON := jsonFlag(c)
	c.Flags().StringVar(&q.Line, "line", "", "explain this `line` of a log; -: that of standard input")
	c.Flags().StringVar(&q.Log, "log", "", "the `log` of the configuration that the line is of")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return explainLine(c, a, q, *asJSON, offline)
		}
		if strings.Contains(args[0], "/") {
			return usageError{errors.New("explain takes an address, not a range; tailban bans lists the bans in one")}
		}
		addr, err := address(args[0])
		if err != nil {
			return err
		}
		x, err := a.client().Explain(c.Context(), addr)
		if err != nil {
			return err
		}
		return answer(a.p, *asJSON, x, showExplanation)
	}
	return c
}

// explainLine asks the daemon about a line, or the configuration if there is
// no daemon.
func explainLine(c *cobra.Command, a *connection, q control.LineQuery, asJSON bool, offline offlineLine) error {
	if q.Line == "-" {
		line, err := bufio.NewReader(io.LimitReader(a.p.In, maxLine)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read a line from standard input: %w", err)
		}
		q.Line = strings.TrimRight(line, "\r\n")
	}
	if q.Line == "" {
		return usageError{errors.New("the line is empty")}
	}
	x, err := a.client().ExplainLine(c.Context(), q)
	if err != nil && offline != nil && exitCode(err) == exitNoDaemon {
		cfg, bad := config.Load(*a.config, a.p.Env)
		if errors.Is(bad, fs.ErrNotExist) {
			return err
		}
		if bad != nil {
			a.say("no daemon answers, and the configuration can't be used instead")
			return bad
		}
		a.say("no daemon answers, so this is by " + *a.config + " alone: bans and counts are not known")
		x, err = offline(cfg, q)
	}
	if err != nil {
		return err
	}
	return answer(a.p, asJSON, x, showLine)
}

// maxLine is the longest line that is read from standard input.
const maxLine = 1 << 20

// conclusionStyle is how a conclusion looks.
func conclusionStyle(conclusion string) style {
	switch conclusion {
	case control.Banned, control.InNetwork:
		return bad
	case control.Observed, control.Counted, control.Postponed:
		return odd
	case control.Allowed, control.Protected, control.Forgiven:
		return good
	}
	return plain
}

func showExplanation(s *screen, x *control.Explanation) {
	s.print(styled{x.Text, conclusionStyle(x.Conclusion)})
	if x.Target.IsValid() && !x.Target.IsSingleIP() {
		s.print("Its events are counted by its network, ", x.Target, ".")
	}
	if x.Protected != "" {
		s.print("It can never be banned: ", x.Protected, ".")
	}
	if len(x.Bans) > 0 {
		s.section("Bans")
		for i := range x.Bans {
			showOneBan(s, x, &x.Bans[i])
		}
	}
	if len(x.Fill) > 0 {
		s.section("Windows")
		t := &table{shrink: []int{0}}
		for _, f := range x.Fill {
			t.row(f.Jail, fmt.Sprintf("%d of %s", f.Count, inWindow(f.Limit, f.Window)), "first "+ago(x.Now, f.First), "last "+ago(x.Now, f.Last))
		}
		t.write(s)
	}
	showPast(s, x)
	if x.Named != nil {
		s.section("Proof by DNS")
		s.print("  ", namedText(x))
	}
	if len(x.Seen) > 0 {
		s.section("In the logs")
		t := &table{}
		for _, f := range x.Seen {
			t.row(f.Log, seenText(x, &f))
			if len(f.Steps) > 0 {
				t.note("%s", latestSteps(&f))
			}
		}
		t.write(s)
	}
	if len(x.Evidence) > 0 {
		s.section("Lines")
		first, last := ends(x.Evidence)
		evidenceTable(first).write(s)
		if n := len(x.Evidence) - len(first) - len(last); n > 0 {
			s.print("  … ", many(n, "more line"), " (--json lists all)")
			evidenceTable(last).write(s)
		}
	}
	if x.Through != "" {
		s.section("Why it still gets through")
		s.print("  ", x.Through)
	}
	if len(x.Notes) > 0 {
		s.section("Notes")
		showNotes(s, x.Notes)
	}
}

// linesShown is how many lines of evidence a person gets to see at each end.
const linesShown = 5

// ends are the first and the last of many lines, or all of a few.
func ends(lines []control.Line) (first, last []control.Line) {
	if len(lines) <= 2*linesShown+1 {
		return lines, nil
	}
	return lines[:linesShown], lines[len(lines)-linesShown:]
}

// showOneBan writes a ban with its owners and what actions hold of it.
func showOneBan(s *screen, x *control.Explanation, b *control.Ban) {
	length := ", " + left(x.Now, b.Until) + " left"
	if b.Observed {
		length += ", observed only"
	}
	if b.Waiting {
		length += ", waits for its turn"
	}
	s.print("  ", words.Target(b.Target), " since ", clock(b.Since), length)
	for i := range b.Owners {
		showOwner(s, x, &b.Owners[i])
	}
	t := &table{}
	for _, at := range b.Actions {
		t.row("  "+at.Action, heldText(&at), heldLeft(x, &at), heldPackets(&at))
	}
	t.write(s)
	if b.Seen > 0 {
		s.printf("    %s reached the server since, the last %s", many(b.Seen, "request"), ago(x.Now, b.LastSeen))
	}
}

func showOwner(s *screen, x *control.Explanation, o *control.Owner) {
	var parts []string
	if o.Count > 0 {
		parts = append(parts, fmt.Sprintf("%s, the limit is %d", inWindow(o.Count, o.Window), o.Limit))
	}
	if o.Offence > 0 {
		parts = append(parts, fmt.Sprintf("offence %d", o.Offence))
	}
	if o.Plane != "" {
		parts = append(parts, o.Plane)
	}
	parts = append(parts, left(x.Now, o.Until)+" left")
	s.print("    ", styled{o.Jail, heading}, reasonText(o.Reason, o.By), ": ", commas(parts))
	if o.Line != nil {
		s.print("      at ", clock(o.Line.Time), "  ", strings.TrimSpace(requestText(o.Line)+"  "+statusText(o.Line)))
	}
	if o.File != "" {
		s.printf("      %s at byte %d", o.File, o.Offset)
	}
}

func heldText(at *control.AtAction) styled {
	switch {
	case at.Err != "":
		return styled{"can't tell: " + at.Err, odd}
	case at.Held == nil:
		return styled{"not asked", plain}
	case *at.Held && at.Network.IsValid():
		return styled{"holds it as part of " + at.Network.String(), good}
	case *at.Held:
		return styled{"holds it", good}
	}
	return styled{"does not hold it", bad}
}

func heldLeft(x *control.Explanation, at *control.AtAction) string {
	if at.Held == nil || !*at.Held || at.Ends.IsZero() {
		return ""
	}
	return left(x.Now, at.Ends) + " left"
}

func heldPackets(at *control.AtAction) string {
	if at.Packets == nil {
		return ""
	}
	return words.Thousands(*at.Packets) + " packets turned away"
}

// showPast writes what is remembered.
func showPast(s *screen, x *control.Explanation) {
	if len(x.Offences) > 0 {
		s.section("Offences")
		t := &table{shrink: []int{0}}
		for _, o := range x.Offences {
			next := ""
			if o.Next > 0 {
				next = "the next ban lasts " + forText(o.Next)
			}
			history := o.History
			if o.Observed {
				history += ", observed"
			}
			t.row(history, plural(o.Count, "offence"), "last "+ago(x.Now, o.Last), "forgotten in "+left(x.Now, o.Until), next)
		}
		t.write(s)
	}
	if len(x.Forgiven) > 0 {
		s.section("Forgiven")
		for _, f := range x.Forgiven {
			jail := "every jail"
			if f.Jail != "" {
				jail = f.Jail
			}
			s.printf("  %s: events before %s don't count in %s%s", words.Target(f.Target), clock(f.Before), jail, reasonText(f.Reason, f.By))
		}
	}
}

// namedText tells what the names of an address prove.
func namedText(x *control.Explanation) string {
	n := x.Named
	text := ""
	switch n.Result {
	case control.NamesProve:
		text = "proved by " + commas(n.Names)
	case control.NamesDisprove:
		text = "disproved: " + n.Reason
	case control.NamesFail:
		text = "not known: " + n.Reason
	default:
		text = n.Reason
	}
	if !n.Until.IsZero() {
		text += ", for another " + left(x.Now, n.Until)
	}
	if !n.Due.IsZero() {
		text += fmt.Sprintf("; what %s decided waits for it, for another %s at most", commas(n.Jails), left(x.Now, n.Due))
	}
	return text
}

// seenText tells what a log's end shows of the address.
func seenText(x *control.Explanation, f *control.Seen) string {
	if f.Err != "" {
		return "can't be read: " + f.Err
	}
	where := "in all of it"
	if f.Partial {
		where = "in its last " + sizeText(f.Bytes)
	}
	if f.Lines == 0 {
		return "no lines " + where
	}
	return fmt.Sprintf("%s %s, from %s to %s", many(f.Lines, "line"), where, ago(x.Now, f.First), ago(x.Now, f.Last))
}

// evidenceTable shows lines, with the agent where it changes.
func evidenceTable(lines []control.Line) *table {
	t := &table{shrink: []int{3, 4}}
	agent := ""
	for _, l := range lines {
		step := l.Step
		if l.Wanted != "" {
			step += ": " + l.Wanted
		}
		if len(l.Jails) > 0 {
			step += ": " + commas(l.Jails)
		}
		t.row(clock(l.Time), l.Log, statusText(&l), requestText(&l), step)
		if l.Agent != agent {
			agent = l.Agent
			t.note("agent %s", orDash(agent))
		}
	}
	return t
}

// latestSteps says what became of lines: only of the latest ones, if there are many.
func latestSteps(f *control.Seen) string {
	n := 0
	for _, of := range f.Steps {
		n += of
	}
	if n < f.Lines {
		return fmt.Sprintf("the latest %s: %s", words.Thousands(n), stepsText(f.Steps))
	}
	return stepsText(f.Steps)
}
