package detector

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"

	"github.com/tailban/tailban/parser"
)

// program is the conditions of all jails of a log, made ready for being looked
// at together: each field is looked at once, whichever jails ask for it, and
// says which of them it lets pass. It is what [matcher.holds] says of each
// jail; and is never changed, so that several engines can use it.
//
// Sets of jails are bits, in words: bit n is the log's n-th jail.
type program struct {
	words int
	all   []uint64     // every jail
	plain bool         // no jail has conditions
	size  int          // what it takes, in entries of four bytes
	each  []*jailRules // ask one after the other: all else, but for words, is not set then

	byStatus [][]uint64 // who lets each status pass: none, 1 to 599, others
	methods  texts
	protos   texts
	notProto []uint64 // who lets no protocol pass that is not known

	honest, liars []uint64 // who lets events pass that are not those of false crawlers, and those that are

	// Of the fields that cost more: who looks at it, who lets everything pass
	// that nothing is found in, and who passes nothing if it is not known.
	agent, path field
	notAgent    []uint64

	needles *literals // in agents; two sets each: who wants it, who refuses it
	exact   map[string][]uint64
	prefix  []pathTest
	regexps []pathTest
	filter  *literals // what regexps require: a set of them
	always  []uint64  // regexps that require nothing
}

// texts says which jails let each text pass, and at last any other.
type texts struct {
	of   []string
	sets [][]uint64
}

// field is what jails ask of a field: who does at all, and who has a list one
// of which must be in it.
type field struct{ asked, wanted []uint64 }

// pathTest is a pattern and, in two sets, who wants it and who refuses it.
type pathTest struct {
	PathPattern
	sets []uint64
}

// maxStatus is more than any status in a condition.
const maxStatus = 600

// newProgram makes a program, or none if it takes more than there is room for.
func newProgram(jails []*jailRules, room int) *program {
	p := &program{words: (len(jails) + 63) / 64, plain: true}
	p.all = p.set(func(int) bool { return true }, jails)
	for _, j := range jails {
		p.plain = p.plain && j.matcher.all
	}
	if p.plain {
		return p
	}
	if p.tooLarge(jails, room) {
		return nil
	}
	for code := range maxStatus + 1 {
		ev := &event{Event: &parser.Event{Status: code}}
		p.byStatus = append(p.byStatus, p.set(func(n int) bool {
			m := &jails[n].matcher
			return !(len(m.match.status) > 0 && !m.match.hasStatus(ev) ||
				len(m.not.status) > 0 && (code == 0 || m.not.hasStatus(ev)))
		}, jails))
	}
	p.methods = p.texts(jails, func(c *conditions) []string { return c.methods }, func(method string) []string {
		return []string{method}
	}, func(list []string, method string) bool { return slices.Contains(list, method) })
	p.protos = p.texts(jails, func(c *conditions) []string { return c.protocols }, func(proto string) []string {
		short := strings.TrimSuffix(proto, ".0")
		return []string{short, short + ".0"}
	}, func(list []string, proto string) bool { return HasProtocol(list, []byte(proto)) })
	p.notProto = p.set(func(n int) bool { return len(jails[n].matcher.not.protocols) == 0 }, jails)
	p.honest = p.set(func(n int) bool { return !jails[n].matcher.match.falseCrawler }, jails)
	p.liars = p.set(func(n int) bool { return !jails[n].matcher.not.falseCrawler }, jails)
	p.notAgent = p.set(func(n int) bool {
		not := &jails[n].matcher.not
		return not.agents.empty() && !not.falseCrawler
	}, jails)
	p.agent = field{
		asked: p.set(func(n int) bool {
			m := &jails[n].matcher
			return !m.match.agents.empty() || !m.not.agents.empty()
		}, jails),
		wanted: p.set(func(n int) bool { return !jails[n].matcher.match.agents.empty() }, jails),
	}
	p.path = field{
		asked: p.set(func(n int) bool {
			m := &jails[n].matcher
			return len(m.match.paths)+len(m.not.paths) > 0
		}, jails),
		wanted: p.set(func(n int) bool { return len(jails[n].matcher.match.paths) > 0 }, jails),
	}
	if !p.compileAgents(jails, room) || !p.compilePaths(jails, room) {
		return nil
	}
	return p
}

// set returns the jails for which has holds.
func (p *program) set(has func(n int) bool, jails []*jailRules) []uint64 {
	s := make([]uint64, p.words)
	for n := range jails {
		if has(n) {
			s[n/64] |= 1 << (n % 64)
		}
	}
	return s
}

// texts looks at a list of conditions with every text that one of them could
// mean, by what can be meant by a text of it and what is in a list.
func (p *program) texts(jails []*jailRules, list func(*conditions) []string, forms func(string) []string, has func(list []string, text string) bool) texts {
	var t texts
	for _, j := range jails {
		for _, c := range []*conditions{&j.matcher.match, &j.matcher.not} {
			for _, text := range list(c) {
				for _, form := range forms(text) {
					if !slices.Contains(t.of, form) {
						t.of = append(t.of, form)
					}
				}
			}
		}
	}
	for i := range len(t.of) + 1 {
		t.sets = append(t.sets, p.set(func(n int) bool {
			want, not := list(&jails[n].matcher.match), list(&jails[n].matcher.not)
			is := func(list []string) bool { return i < len(t.of) && has(list, t.of[i]) }
			return (len(want) == 0 || is(want)) && !is(not)
		}, jails))
	}
	return t
}

func (t *texts) who(text []byte) []uint64 {
	for i, x := range t.of {
		if string(text) == x {
			return t.sets[i]
		}
	}
	return t.sets[len(t.of)]
}

// pair marks a jail in the first of two sets or, for what it refuses, in the
// second.
func (p *program) pair(sets []uint64, n int, refuses bool) {
	if refuses {
		sets = sets[p.words:]
	}
	sets[n/64] |= 1 << (n % 64)
}

func (p *program) compileAgents(jails []*jailRules, room int) (ok bool) {
	var all []literal
	for n, j := range jails {
		for not, a := range []*agents{&j.matcher.match.agents, &j.matcher.not.agents} {
			sets := make([]uint64, 2*p.words)
			p.pair(sets, n, not == 1)
			for _, text := range a.needles {
				all = append(all, literal{text, sets})
			}
		}
	}
	p.needles, ok = p.literals(all, 2*p.words, room)
	return ok
}

func (p *program) compilePaths(jails []*jailRules, room int) (ok bool) {
	p.exact = map[string][]uint64{}
	for n, j := range jails {
		for not, list := range [][]PathPattern{j.matcher.match.paths, j.matcher.not.paths} {
			for _, x := range list {
				var sets []uint64
				switch {
				case x.re != nil:
					sets = p.test(&p.regexps, x)
				case x.exact != "":
					if p.exact[x.exact] == nil {
						p.exact[x.exact] = make([]uint64, 2*p.words)
					}
					sets = p.exact[x.exact]
				default:
					sets = p.test(&p.prefix, x)
				}
				p.pair(sets, n, not == 1)
			}
		}
	}
	words := (len(p.regexps) + 63) / 64
	p.always = make([]uint64, words)
	var all []literal
	for i := range p.regexps {
		own := make([]uint64, words)
		own[i/64] |= 1 << (i % 64)
		needs := required(p.regexps[i].re.String())
		if len(needs) == 0 {
			or(p.always, own)
		}
		for _, text := range needs {
			all = append(all, literal{[]byte(text), own})
		}
	}
	p.filter, ok = p.literals(all, words, room)
	return ok
}

// test returns the sets of a pattern in a list, to which it is added unless it
// is there.
func (p *program) test(list *[]pathTest, x PathPattern) []uint64 {
	for i := range *list {
		if (*list)[i].text == x.text {
			return (*list)[i].sets
		}
	}
	sets := make([]uint64, 2*p.words)
	*list = append(*list, pathTest{x, sets})
	return sets
}

// scratch is what an engine needs for a program, and remembers of the texts it
// looked at last.
type scratch struct {
	jails         []uint64 // whose conditions hold
	found         []uint64 // two sets
	hits          []uint64 // regexps to try
	agents, paths memo
}

func newScratch(p *program) *scratch {
	if p.plain {
		return nil
	}
	if p.each != nil {
		return &scratch{jails: make([]uint64, p.words)}
	}
	return &scratch{
		jails: make([]uint64, p.words), found: make([]uint64, 2*p.words), hits: make([]uint64, len(p.always)),
		agents: newMemo(p.words), paths: newMemo(p.words),
	}
}

// holds returns the jails whose conditions the event fits, until the next call.
func (p *program) holds(ev *event, s *scratch) []uint64 {
	switch {
	case p.plain:
		return p.all
	case p.each != nil:
		return p.holdsEach(ev, s)
	}
	status := p.byStatus[min(uint(ev.Status), maxStatus)]
	method, proto := p.methods.who(ev.Method), p.protos.who(ev.Proto)
	claim := p.honest
	if ev.falseCrawler {
		claim = p.liars
	}
	askAgent, askPath := uint64(0), uint64(0)
	for i := range s.jails {
		w := status[i] & method[i] & proto[i] & claim[i]
		if ev.Partial {
			if ev.Proto == nil {
				w &= p.notProto[i]
			}
			if ev.Agent == nil {
				w &= p.notAgent[i]
			}
		}
		s.jails[i] = w
		askAgent |= w & p.agent.asked[i]
		askPath |= w & p.path.asked[i]
	}
	if askAgent != 0 {
		and(s.jails, p.passAgent(ev, s))
	}
	if askPath != 0 {
		and(s.jails, p.passPath(ev, s))
	}
	return s.jails
}

func and(set, with []uint64) {
	for i, w := range with {
		set[i] &= w
	}
}

// passed turns what was found into who lets it pass.
func (p *program) passed(f *field, found, into []uint64) {
	for i := range into {
		into[i] = (found[i] | ^f.wanted[i]) &^ found[p.words+i]
	}
}

// passAgent returns who lets the agent pass.
func (p *program) passAgent(ev *event, s *scratch) []uint64 {
	agent := ev.Agent[:min(len(ev.Agent), maxAgent)]
	set, known := s.agents.look(agent)
	if !known {
		clear(s.found)
		p.needles.find(agent, s.found)
		p.passed(&p.agent, s.found, set)
	}
	return set
}

// passPath returns who lets the path pass.
func (p *program) passPath(ev *event, s *scratch) []uint64 {
	set, known := s.paths.look(ev.Target)
	if known {
		return set
	}
	path := ev.path()
	clear(s.found)
	if sets, ok := p.exact[string(path)]; ok {
		or(s.found, sets)
	}
	for i := range p.prefix {
		if x := &p.prefix[i]; bytes.HasPrefix(path, []byte(x.prefix)) {
			or(s.found, x.sets)
		}
	}
	p.tryRegexps(path, s)
	p.passed(&p.path, s.found, set)
	return set
}

// tryRegexps tries those that have what they require in the path.
func (p *program) tryRegexps(path []byte, s *scratch) {
	copy(s.hits, p.always)
	if isASCII(path) {
		p.filter.find(path, s.hits)
	} else { // in which more can stand for a letter than its two cases
		for i := range p.regexps {
			s.hits[i/64] |= 1 << (i % 64)
		}
	}
	for i, w := range s.hits {
		for ; w != 0; w &= w - 1 {
			if x := &p.regexps[i*64+bits.TrailingZeros64(w)]; x.re.Match(path) {
				or(s.found, x.sets)
			}
		}
	}
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
