package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/words"
	"github.com/tailban/tailban/parser"
)

// maxExamples is how many unparsed lines are shown.
const maxExamples = 3

// maxSaid is how many refusals are told apart.
const maxSaid = 10_000

// summary is what is said at the end.
type summary struct {
	elapsed  time.Duration
	clients  clients
	late     lateLines
	bans     uint64
	observed uint64
	refused  uint64
	unproven uint64 // bans of clients that claim to be wanted machines, and may be
	names    uint64 // clients whose names were looked up
	said     map[refusal]struct{}
	targets  *distinct[netip.Prefix]
	jails    byDay
	wanted   map[detector.Proof]*spared
	bad      []badLine // the first lines that did not parse
}

// spared are the lines that a wanted machine has passed by one proof.
type spared struct {
	lines   uint64
	clients *distinct[address]
}

type refusal struct {
	jail   string
	target netip.Prefix
}

type badLine struct {
	where string
	err   error
	text  []byte
}

func newSummary() summary {
	return summary{
		clients: newClients(),
		targets: newDistinct(func(p netip.Prefix) uint32 { return addressOf(p.Addr()).hash() }), said: map[refusal]struct{}{}, jails: byDay{},
		wanted: map[detector.Proof]*spared{},
	}
}

// passed counts a line of a wanted machine.
func (s *summary) passed(v *detector.Verdict) {
	proof := grouped(v.Proof)
	by := s.wanted[proof]
	if by == nil {
		by = &spared{clients: newDistinct(address.hash)}
		s.wanted[proof] = by
	}
	by.lines++
	by.clients.add(addressOf(v.Client))
}

// writeWanted tells which machines passed, by which proof, those with most lines
// first.
func (s *summary) writeWanted(b *strings.Builder) {
	proofs := slices.SortedFunc(maps.Keys(s.wanted), func(p, q detector.Proof) int {
		return cmp.Or(cmp.Compare(s.wanted[q].lines, s.wanted[p].lines), cmp.Compare(p.String(), q.String()))
	})
	for _, p := range proofs {
		by := s.wanted[p]
		fmt.Fprintf(b, "%14s%s: %s; clients: %s\n", "", p, words.Thousands(by.lines), by.clients)
	}
}

// writeNames tells of bans that a daemon may not have made, as it looks up the
// names of who claims to be a wanted machine.
func (s *summary) writeNames(b *strings.Builder, looked bool) {
	switch {
	case looked && s.names > 0:
		fmt.Fprintf(b, "%14snames looked up, as the DNS has them now: of %s", "", words.Plural(s.names, "client"))
		if s.unproven > 0 {
			fmt.Fprintf(b, "; in vain where %s came of it", words.Plural(s.unproven, "ban"))
		}
		b.WriteByte('\n')
	case s.unproven > 0:
		fmt.Fprintf(b, "%14s%s of who may be a wanted machine: names are looked up by a daemon, and here with --dns\n", "", words.Plural(s.unproven, "ban"))
	}
}

// lateLines are those that came after others with a later time.
type lateLines struct {
	lines uint64
	most  int64  // nanoseconds
	where string // of the line that was latest
}

func (l *lateLines) add(behind int64, at *detector.Line) {
	l.lines++
	if behind > l.most {
		l.most, l.where = behind, fmt.Sprintf("%s:%d", at.Path, at.Number)
	}
}

func (l *lateLines) String() string {
	if l.lines == 0 {
		return "none"
	}
	most := time.Duration(l.most)
	text := most.Round(time.Millisecond).String()
	if most >= time.Second {
		text = config.FormatDuration(most)
	}
	return fmt.Sprintf("%s behind others with a later time, by up to %s (%s)", words.Thousands(l.lines), text, l.where)
}

// shownClients is how many of the most active clients are named.
const shownClients = 5

// writeTop names the clients with most lines, and their share of all that have
// a client.
func (s *summary) writeTop(b *strings.Builder) {
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i, c := range s.clients.top.most(shownClients, func(a, b address) int { return a.target().Compare(b.target()) }) {
		name := ""
		if i == 0 {
			name = "most active"
		}
		about := ""
		if c.over > 0 {
			about = fmt.Sprintf(", or up to %s fewer", words.Thousands(c.over))
		}
		fmt.Fprintf(tw, "%-12s\t%s\t%s%s%s\n", name, words.Target(c.value.target()), words.Thousands(c.n), share(c.n, s.clients.top.total), about)
	}
	tw.Flush()
}

func (s *summary) unparsed(at *detector.Line, err error, line []byte) {
	if len(s.bad) < sampleLines {
		s.bad = append(s.bad, badLine{fmt.Sprintf("%s:%d", at.Path, at.Number), err, bytes.Clone(line[:min(len(line), 4096)])})
	}
}

// decided counts a decision. It reports false for a refusal that there was
// before.
func (s *summary) decided(d *detector.Decision) bool {
	if d.Refused != "" {
		s.refused++
		r := refusal{d.Jail, d.Target}
		if _, before := s.said[r]; before {
			return false
		}
		if len(s.said) < maxSaid {
			s.said[r] = struct{}{}
		}
		return true
	}
	if d.Claims != "" {
		s.unproven++
	}
	if d.Observe {
		s.observed++
	} else {
		s.bans++
	}
	s.targets.add(d.Target)
	s.jails.add(d)
	return true
}

func (s *summary) write(w io.Writer, r *replay) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s  %s\n", name, fmt.Sprintf(format, args...))
	}
	steps := &r.log.Steps
	var lines uint64
	for _, n := range steps {
		lines += n
	}
	if r.print.header {
		b.WriteByte('\n')
	}
	speed := ""
	if s.elapsed > 0 {
		speed = fmt.Sprintf(", %s lines a second", words.Thousands(int64(float64(lines)/s.elapsed.Seconds())))
	}
	row("lines", "%s, read as %s%s", words.Thousands(lines), r.conf.FormatName(), speed)
	row("unparsed", "%s%s", words.Thousands(steps[detector.StepUnparsed]), share(steps[detector.StepUnparsed], lines))
	s.writeBad(&b, r, lines)
	row("clients", "%s", s.clients.all)
	s.writeTop(&b)
	bans := words.Thousands(s.bans)
	if s.observed > 0 {
		bans += fmt.Sprintf(", and %s by jails that only observe", words.Thousands(s.observed))
	}
	row("bans", "%s; banned clients and networks: %s", bans, s.targets)
	row("spared", "%s", s.spared(steps))
	s.writeWanted(&b)
	s.writeNames(&b, r.prover != nil)
	row("not counted", "%s of banned clients, %s that no jail is about, %s too late", words.Thousands(steps[detector.StepBanned]),
		words.Thousands(steps[detector.StepUnmatched]), words.Thousands(r.engine.Stats().Late))
	row("late", "%s", &s.late)
	if st := r.engine.Stats(); st.Evicted+st.Refused+st.BansEvicted > 0 {
		row("memory", "%s windows and %s bans were dropped: raise max_memory or max_bans for exact results",
			words.Thousands(st.Evicted+st.Refused), words.Thousands(st.BansEvicted))
	}
	s.jails.write(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

// spared lists the lines that an exception kept from counting.
func (s *summary) spared(steps *[detector.NumSteps]uint64) string {
	var parts []string
	for _, x := range []struct {
		step detector.Step
		what string
	}{
		{detector.StepAllowed, "allowed"},
		{detector.StepWanted, "of wanted machines"},
		{detector.StepInfrastructure, "trusted proxies"},
		{detector.StepNobody, "without a client"},
	} {
		if n := steps[x.step]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", words.Thousands(n), x.what))
		}
	}
	if s.refused > 0 {
		parts = append(parts, fmt.Sprintf("%s times refused by the guard", words.Thousands(s.refused)))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func share(part, whole uint64) string {
	if part == 0 || whole == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.2f %%)", 100*float64(part)/float64(whole))
}

// writeBad shows where lines did not parse and, if that is most of them, what
// they look like. Their text, which can hold names and queries, only if asked
// for.
func (s *summary) writeBad(b *strings.Builder, r *replay, lines uint64) {
	var texts [][]byte
	for i, x := range s.bad {
		texts = append(texts, x.text)
		if i >= maxExamples {
			continue
		}
		fmt.Fprintf(b, "%14s%s: %v", "", x.where, x.err)
		if r.Raw {
			fmt.Fprintf(b, ": %s", Excerpt(x.text))
		}
		b.WriteByte('\n')
	}
	if 2*r.log.Steps[detector.StepUnparsed] <= lines {
		return
	}
	hint := "they fit no format known here"
	if like, n := parser.Detect(texts); 2*n > len(texts) {
		hint = fmt.Sprintf("they look like format = %q", like)
	}
	fmt.Fprintf(b, "%14smost lines don't parse as %s: %s\n", "", r.conf.FormatName(), hint)
}
