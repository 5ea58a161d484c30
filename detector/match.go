package detector

import "github.com/tailban/tailban/parser"

// matcher is a Where made ready for matching.
type matcher struct {
	match, not conditions
	all        bool // there are no conditions
}

type conditions struct {
	methods []string
	paths   []PathPattern
	status  []StatusRange
	agents  agents

	protocols []string

	falseCrawler bool
}

func newMatcher(w *Where) matcher {
	return matcher{match: compile(&w.Match), not: compile(&w.Not), all: w.Match.Empty() && w.Not.Empty()}
}

func compile(c *Conditions) conditions {
	return conditions{
		methods: c.Methods, paths: c.Paths, status: c.Status, agents: newAgents(c.Agents), protocols: c.Protocols, falseCrawler: c.FalseCrawler,
	}
}

// holds reports whether the event fits. What is not known of an event, as
// when its line was cut, fits nothing, and nothing that is negated either.
func (m *matcher) holds(ev *event) bool {
	if m.all {
		return true
	}
	c := &m.match
	if c.falseCrawler && !ev.falseCrawler ||
		len(c.methods) > 0 && !c.method(ev) ||
		len(c.protocols) > 0 && !HasProtocol(c.protocols, ev.Proto) ||
		len(c.status) > 0 && !c.hasStatus(ev) ||
		!c.agents.empty() && !c.agents.in(ev.agent()) ||
		len(c.paths) > 0 && !c.path(ev.path()) {
		return false
	}
	n := &m.not
	return !(n.falseCrawler && (ev.Partial && ev.Agent == nil || ev.falseCrawler) ||
		len(n.methods) > 0 && n.method(ev) ||
		len(n.protocols) > 0 && (ev.Partial && ev.Proto == nil || HasProtocol(n.protocols, ev.Proto)) ||
		len(n.status) > 0 && (ev.Status == 0 || n.hasStatus(ev)) ||
		!n.agents.empty() && (ev.Partial && ev.Agent == nil || n.agents.in(ev.agent())) ||
		len(n.paths) > 0 && n.path(ev.path()))
}

func (c *conditions) method(ev *event) bool {
	for _, m := range c.methods {
		if string(ev.Method) == m {
			return true
		}
	}
	return false
}

func (c *conditions) hasStatus(ev *event) bool {
	for _, r := range c.status {
		if r.From <= ev.Status && ev.Status <= r.To {
			return true
		}
	}
	return false
}

func (c *conditions) path(path []byte) bool {
	for i := range c.paths {
		if c.paths[i].match(path) {
			return true
		}
	}
	return false
}

// event is a parsed line, with what conditions look at worked out when it is
// first asked for.
type event struct {
	*parser.Event
	pathBuf, agentBuf []byte
	hasPath, hasAgent bool

	falseCrawler bool // known from step 4 on
}

// reset makes it the event of the next line.
func (ev *event) reset(of *parser.Event) {
	ev.Event, ev.hasPath, ev.hasAgent, ev.falseCrawler = of, false, false, false
}

// path is the normalised path.
func (ev *event) path() []byte {
	if !ev.hasPath {
		ev.pathBuf = parser.AppendPath(ev.pathBuf[:0], ev.Target)
		ev.hasPath = true
	}
	return ev.pathBuf
}

// agent is the user agent in lower case, or the beginning of a very long one.
func (ev *event) agent() []byte {
	if !ev.hasAgent {
		ev.agentBuf = appendLower(ev.agentBuf[:0], ev.Agent[:min(len(ev.Agent), maxAgent)])
		ev.hasAgent = true
	}
	return ev.agentBuf
}
