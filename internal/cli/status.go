package cli

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/internal/words"
)

func newStatus(a *connection) *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how the daemon is",
		Long: `Show the daemon at a glance: whether it is healthy and what is wrong, its
jails, logs and actions, and how much of what is bounded is used. Counters are
since the daemon's start.

With --check only what is wrong is shown, and the exit code tells a monitor:
0 healthy, 3 something is blind, failing, behind or the like, 4 no daemon
answers, 1 it can't be told.`,
		Example: `  tailban status
  out=$(tailban status --check 2>&1) || echo "$out" | mail -s "tailban on $(hostname)" root
  tailban status --json | jq '.jails[] | {name, bans}'`,
		Args: noArgs,
	}
	asJSON := jsonFlag(c)
	c.Flags().BoolVar(&check, "check", false, "show only what is wrong; exit with 3 if anything is")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := a.client().Status(c.Context())
		if err != nil {
			return err
		}
		if !check {
			return answer(a.p, *asJSON, s, showStatus)
		}
		if *asJSON {
			err = writeJSON(a.p.Out, s.Problems)
		} else if len(s.Problems) > 0 {
			out := newScreen(a.p)
			problemsTable(s).write(out)
			err = out.flush()
		}
		if err != nil || s.Healthy {
			return err
		}
		return errUnhealthy
	}
	return c
}

func showStatus(s *screen, st *control.Status) {
	if st.Healthy {
		s.print(styled{"healthy", good})
	} else {
		s.print(styled{"not healthy", bad}, ": ", plural(len(st.Problems), "problem"))
	}
	s.printf("tailban %s, process %d, up %s, %s", st.Version, st.PID, brief(st.Now.Sub(st.Started)), many(st.Bans, "ban"))
	s.printf("configuration %s, read %s", orElse(st.Config.Path, "built in"), clock(st.Config.Loaded))
	if st.Config.LastGood {
		s.print(styled{"The configuration's file has problems, so what ran before it goes on:", bad})
		for _, x := range st.Config.Problems {
			s.print("  ", x)
		}
	}
	if len(st.Problems) > 0 {
		s.section("Problems")
		problemsTable(st).write(s)
	}
	s.section("Jails")
	jailsTable(st).write(s)
	s.section("Logs")
	logsTable(st).write(s)
	s.section("Actions")
	if len(st.Actions) == 0 {
		s.print("  none: nothing is enforced")
	} else {
		actionsTable(st).write(s)
	}
	if len(st.Notify) > 0 {
		s.section("Notify")
		notifyTable(st).write(s)
	}
	if len(st.Lists) > 0 {
		s.section("Lists")
		listsTable(st).write(s)
	}
	if st.Proofs != nil {
		s.section("Proofs by DNS")
		showProofs(s, st.Proofs)
	}
	s.section("Budgets")
	budgetsTable(st).write(s)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func problemsTable(st *control.Status) *table {
	t := &table{}
	for _, p := range st.Problems {
		kind, text := styled{p.Kind, bad}, p.Text
		if p.Kind == "held" {
			kind.style = odd
		}
		if !p.Since.IsZero() {
			text += " (" + ago(st.Now, p.Since) + ")"
		}
		t.row(kind, p.Where, text)
	}
	return t
}

func jailsTable(st *control.Status) *table {
	t := &table{head: []string{"jail", "mode", "limit", "matched", "decisions", "bans", "last ban"}, shrink: []int{0}}
	for _, j := range st.Jails {
		mode := styled{j.Mode, plain}
		if j.Mode != control.ModeEnforce {
			mode.style = odd
		}
		t.row(j.Name, mode, inWindow(j.Limit, j.Window), words.Thousands(j.Matched), words.Thousands(j.Decisions), words.Thousands(j.Bans), ago(st.Now, j.LastBan))
		if j.Refused > 0 {
			t.note("%s of these decisions refused: the target is protected", words.Thousands(j.Refused))
		}
		if h := j.Held; h != nil {
			until := "until it is resumed"
			if !h.Until.IsZero() {
				until = "for another " + left(st.Now, h.Until)
			}
			t.note("held %s%s", until, reasonText(h.Reason, h.By))
		}
	}
	return t
}

// following is the state of a file that nothing is wrong with.
const following = "following"

func logsTable(st *control.Status) *table {
	t := &table{head: []string{"log", "format", "files", "lines", "parsed", "behind", "last line"}, shrink: []int{0, 1}}
	for _, l := range st.Logs {
		records := l.Lines - l.Steps[detector.StepNotRecord.String()]
		parsed := styled{percent(records-l.Unparsed, records), plain}
		if l.Blind {
			parsed.style = bad
		}
		t.row(l.Name, l.Format, filesRead(&l), words.Thousands(l.Lines), parsed, sizeText(l.Behind), ago(st.Now, l.LastLine))
		if !l.LastEvent.IsZero() && l.LastLine.Sub(l.LastEvent).Abs() > time.Minute {
			t.note("its last line says %s, and was read at %s", clock(l.LastEvent), clock(l.LastLine))
		}
		for _, text := range packed(losses(&l), noteWidth) {
			t.note("%s", text)
		}
		for _, text := range fileTexts(l.Files) {
			t.note("%s", text)
		}
	}
	return t
}

// filesRead tells how many of a log's files are read, and of how many if these
// aren't all.
func filesRead(l *control.LogStatus) string {
	read := 0
	for i := range l.Files {
		if s := source.State(l.Files[i].State); s == source.Following || s == source.Renamed || s == source.Ended {
			read++
		}
	}
	if read == len(l.Files) {
		return strconv.Itoa(read)
	}
	return fmt.Sprintf("%d/%d", read, len(l.Files))
}

// losses tells what of a log was not read or counted as it should be.
func losses(l *control.LogStatus) (parts []string) {
	add := func(n uint64, what, fate string) {
		if n > 0 {
			parts = append(parts, many(n, what)+fate)
		}
	}
	add(l.Cut, "line", " cut as too long")
	add(l.Late, "line", " too late to count")
	if l.Gaps > 0 {
		text := "lines lost " + many(l.Gaps, "time")
		if l.GapBytes > 0 {
			text += " (" + sizeText(int64(l.GapBytes)) + " or more)"
		}
		parts = append(parts, text)
	}
	add(l.Dropped, "message", " dropped")
	add(l.Refused, "message", " refused")
	add(l.Malformed, "record", " malformed")
	add(l.Errors, "error", " of reading")
	if l.Polling {
		parts = append(parts, "without inotify")
	}
	return parts
}

// alikeShown is how many files with the same state and trouble are listed one by
// one.
const alikeShown = 3

// fileTexts tells of files that something is wrong with. Of many alike the others
// are counted.
func fileTexts(files []control.FileStatus) (lines []string) {
	type kind struct{ state, err string }
	seen := map[kind]int{}
	var kinds []kind
	for i := range files {
		k := kind{files[i].State, files[i].Err}
		text := fileText(&files[i])
		if len(text) == 0 {
			continue
		}
		if seen[k]++; seen[k] <= alikeShown {
			lines = append(lines, text...)
		} else if seen[k] == alikeShown+1 {
			kinds = append(kinds, k)
		}
	}
	for _, k := range kinds {
		lines = append(lines, fileText(&control.FileStatus{Path: fmt.Sprintf("%d more", seen[k]-alikeShown), State: k.state, Err: k.err})...)
	}
	return lines
}

// fileText tells of a file that something is wrong with, and what. A long
// reason gets a line of its own.
func fileText(f *control.FileStatus) []string {
	if f.Err == "" && f.State == following {
		return nil
	}
	text := f.Path + ": " + f.State
	if f.Err == "" {
		return []string{text}
	}
	if whole := text + ": " + f.Err; utf8.RuneCountInString(whole) <= noteWidth {
		return []string{whole}
	}
	return []string{text, "  " + f.Err}
}

// noteWidth is what a note may take of a screen of 80 columns.
const noteWidth = 80 - 2*tableIndent

// packed joins parts with commas to lines of at most width columns; only a part
// that is longer alone is a longer line.
func packed(parts []string, width int) (lines []string) {
	for _, p := range parts {
		if n := len(lines); n > 0 && utf8.RuneCountInString(lines[n-1])+len(", ,")+utf8.RuneCountInString(p) <= width {
			lines[n-1] += ", " + p
			continue
		} else if n > 0 {
			lines[n-1] += ","
		}
		lines = append(lines, p)
	}
	return lines
}

func actionsTable(st *control.Status) *table {
	t := &table{head: []string{"action", "type", "state", "bans", "pending", "drift", "last compared"}, shrink: []int{0}}
	for _, x := range st.Actions {
		state := styled{"works", good}
		if x.Failing {
			state = styled{"failing", bad}
		}
		if x.Overdue > 0 && !x.Failing {
			state = styled{"overdue", bad}
		}
		if x.Contested && !x.Failing {
			state = styled{"contested", bad}
		}
		drift := x.DriftAdded + x.DriftRemoved + x.DriftCorrected
		t.row(x.Name, x.Type, state, words.Thousands(x.Desired), words.Thousands(x.Pending), words.Thousands(drift), ago(st.Now, x.LastPass))
		if x.Failing {
			t.note("it began to fail %s: %s", ago(st.Now, x.Since), x.Err)
		}
		if x.Overdue > 0 {
			t.note("bans that are over, and can't be taken out: %s; that began %s", words.Thousands(x.Overdue), ago(st.Now, x.OverdueSince))
			t.note("  %s", x.OverdueErr)
		}
		if drift > 0 {
			t.note("found and repaired: %s missing, %s too many, %s with another end",
				words.Thousands(x.DriftAdded), words.Thousands(x.DriftRemoved), words.Thousands(x.DriftCorrected))
		}
		if x.Repairs > 0 {
			t.note("its rules, changed by others, were repaired %s", many(x.Repairs, "time"))
		}
		if x.Contested {
			t.note("somebody else changes it again and again: repairs wait longer and longer")
		}
		if x.LeftOut > 0 {
			t.note("bans that end soonest and have no room in it: %s", words.Thousands(x.LeftOut))
		}
		if x.Misheld > 0 {
			t.note("bans that it said to hold, and didn't: %s", words.Thousands(x.Misheld))
		}
		if x.Seen > 0 {
			t.note("%s", arrivedText(&x))
		}
		if r := x.Programs; r != nil && r.Failures > 0 {
			t.note("programs run: %s, that failed: %s, of these by taking too long: %s", words.Thousands(r.Runs), words.Thousands(r.Failures), words.Thousands(r.Timeouts))
		}
		if g := x.Edge; g != nil {
			t.note("%s", edgeText(g))
			for _, l := range g.Leases {
				if g.Rules != "" {
					t.note("zone %s: refuses access rules", l.Zone)
					continue
				}
				t.note("%s", leaseText(st.Now, &l))
			}
			if g.Overdue > 0 {
				t.note("bans that are long over, and can't be removed: %s", words.Thousands(g.Overdue))
			}
			if g.Unused {
				t.note("no rule at Cloudflare uses the list %s, so it keeps nobody away", g.List)
			}
		}
		if x.Cut != nil {
			t.note("%s", cutText(x.Cut))
		}
		if m := x.Merged; m != nil {
			t.note("networks banned as one: %s, of %s; split before their end: %s", words.Thousands(m.Networks), many(m.Members, "banned member"), words.Thousands(m.Splits))
		}
		if x.Rejected > 0 {
			t.note("bans that it could not take: %s", words.Thousands(x.Rejected))
		}
	}
	return t
}

// arrivedText tells of requests that got through: explain says why of each client.
func arrivedText(a *control.ActionStatus) string {
	text := "requests of banned clients that still arrived: " + words.Thousands(a.Seen)
	if a.SeenForwarded > 0 {
		text += ", through a proxy: " + words.Thousands(a.SeenForwarded)
	}
	return text
}

// edgeText tells of a list at Cloudflare.
func edgeText(g *control.EdgeStatus) string {
	text := fmt.Sprintf("list %s: %s of this host, %s of others", g.List, many(g.Items, "item"), words.Thousands(g.Others))
	changes := fmt.Sprintf("writes: %s, items changed: %s", words.Thousands(g.Writes), words.Thousands(g.Changes))
	if g.Rules != "" {
		text = fmt.Sprintf("access rules of %s: %s of this host, %s of others", g.Rules, words.Thousands(g.Items), words.Thousands(g.Others))
		changes = "of these changes: " + words.Thousands(g.Changes)
	}
	if g.Covered > 0 {
		text += fmt.Sprintf(", which ban %s of its targets", words.Thousands(g.Covered))
	}
	text += fmt.Sprintf("; requests: %s, %s", words.Thousands(g.Requests), changes)
	if g.Waiting > 0 {
		text += "; changes that wait for the budget: " + words.Thousands(g.Waiting)
	}
	return text
}

// leaseText tells of the rule of a zone.
func leaseText(now time.Time, l *control.Lease) string {
	text := "rule of zone " + l.Zone
	left := l.Deadline.Sub(now)
	switch {
	case l.Off:
		return text + ": turned off by somebody"
	case l.Err == "" && l.Deadline.IsZero():
		return text + ": not made yet"
	case l.Err == "":
		return text + ": works for " + config.FormatDuration(left.Truncate(time.Minute)) + ", and is renewed before"
	case l.Deadline.IsZero():
		return text + ": can't be made"
	case left <= 0:
		return text + ": lapsed, as it can't be renewed"
	}
	return text + ": can't be renewed, and lapses in " + config.FormatDuration(left.Truncate(time.Minute))
}

// cutText tells of the connections that were cut.
func cutText(c *control.CutStatus) string {
	text := "connections of banned clients cut: " + words.Thousands(c.Connections)
	if c.Failed > 0 {
		text += ", not cut: " + words.Thousands(c.Failed)
	}
	if c.Dropped > 0 {
		text += "; of " + many(c.Dropped, "ban") + " none were looked for"
	}
	return text
}

// notifyTable tells of those who are told. That one fails is for its reader to
// judge: nothing else depends on it.
func notifyTable(st *control.Status) *table {
	t := &table{head: []string{"notify", "format", "state", "sent", "waiting", "last sent"}, shrink: []int{0}}
	for _, x := range st.Notify {
		state := styled{"works", good}
		switch {
		case x.Failing:
			state = styled{"failing", bad}
		case x.Sent == 0:
			state = styled{"idle", plain}
		}
		t.row(x.Name, x.Format, state, words.Thousands(x.Sent), words.Thousands(x.Waiting), ago(st.Now, x.LastSent))
		if x.Failing {
			t.note("it began to fail %s: %s", ago(st.Now, x.Since), x.Err)
		}
		if x.Lost > 0 {
			t.note("%s in messages that were refused for good", many(x.Lost, "event"))
		}
	}
	return t
}

// showProofs tells how it goes with those who claim to be wanted machines.
func showProofs(s *screen, p *control.ProofStatus) {
	s.print("  ", many(p.Proved, "client"), " proved to be wanted machines, ", words.Thousands(p.Disproved), " disproved, ",
		words.Thousands(p.Failed), " unknown as look-ups failed, ", words.Thousands(p.Waiting), " being looked up")
	s.print("  ", many(p.Spared, "ban"), " dropped, ", words.Thousands(p.Postponed), " waiting for a proof, ", many(p.LookUps, "look-up"))
}

func budgetsTable(st *control.Status) *table {
	t := &table{head: []string{"budget", "used", "of", "share", "dropped"}}
	for _, b := range st.Budgets {
		dropped := styled{words.Thousands(b.Dropped), plain}
		if b.Dropped > 0 {
			dropped.style = bad
		}
		t.row(b.Name, amount(b.Used, b.Unit), amount(b.Limit, b.Unit), percent(uint64(max(b.Used, 0)), uint64(max(b.Limit, 0))), dropped)
	}
	return t
}

// forText writes a length of a request's answer.
func forText(s float64) string { return config.FormatDuration(seconds(s)) }
