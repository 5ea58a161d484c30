package detector

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Limits of what is known of clients that claim to be a wanted machine and can
// only prove it by their names.
const (
	MaxQuestions = 1024   // clients that wait for an answer
	MaxProved    = 10_000 // clients that have proved it
	MaxUnproved  = 10_000 // clients that have not

	// MaxTaken is how many clients of one network (a /16, a /32 of IPv6) are looked
	// up at a time: those whose DNS is slow must not make all others wait.
	MaxTaken = 8
)

// renewal is how long before its end a proof is asked for again: a machine that
// comes all the time is none but itself in between, also if the DNS fails for a
// while.
const renewal = int64(time.Hour)

// Question asks which names a client has, below any of some domains, whose
// addresses hold the client. The engine looks nothing up: who drives it takes
// its questions ([Engine.Question]) and gives the answers ([Engine.Answer]).
type Question struct {
	Client  netip.Addr
	Domains []string // in lower case; not to be changed
	Rules   uint64   // tells answers to questions of other rules
}

// Answer is what came of a question.
type Answer struct {
	Question
	Result Result
	Names  []string // of Proved, in lower case: all end in one of the domains
	Reason string   // of the others, in words
	Until  int64    // up to when it holds, in nanoseconds since the epoch
}

// Result of a look-up.
type Result uint8

const (
	Unknown   Result = iota // it failed
	Proved                  // there are such names
	Disproved               // there are none
)

// proofs is what is known of clients by their names. It is made when a machine
// can be proved by them.
type proofs struct {
	domains []string // of all machines
	rules   uint64   // the number of these

	known   *expiring[netip.Addr, proved]
	unknown *expiring[netip.Addr, unproved]

	// asked are those without an answer. Those that nobody has taken yet are in
	// one of the queues; who has a decision put off is asked for first.
	asked         map[netip.Addr]*asked
	crowds        crowds               // of these
	taken         map[netip.Prefix]int // of these, by network
	urgent, queue []netip.Addr
	none          bool   // of those in the queues can be taken, as long as nothing happens
	dropped       uint64 // not asked, as there were too many
}

type proved struct{ names []string }

type unproved struct {
	result Result
	reason string
}

type asked struct {
	taken  bool
	urgent bool
	late   bool // a decision did not wait any longer: neither do others
	renews bool // a proof still held
}

func newProofs() *proofs {
	hash := func(a netip.Addr) uint32 { return keyOf(single(a)).quick() }
	none := func(netip.Addr, int) {}
	return &proofs{
		known:   newExpiring[netip.Addr, proved](MaxProved, hash, none),
		unknown: newExpiring[netip.Addr, unproved](MaxUnproved, hash, none),
		asked:   map[netip.Addr]*asked{},
		crowds:  crowds{},
		taken:   map[netip.Prefix]int{},
	}
}

// use has questions be about other domains. What was proved stays, as it is
// compared with the domain of a machine each time. It reports whether they are
// others: then nothing is asked any more.
func (p *proofs) use(domains []string) (others bool) {
	if slices.Equal(p.domains, domains) {
		return false
	}
	p.domains, p.rules = domains, p.rules+1
	p.unknown.forget(maxTime)
	clear(p.asked)
	clear(p.crowds)
	clear(p.taken)
	p.urgent, p.queue, p.none = nil, nil, true
	return true
}

const maxTime = 1<<63 - 1

// standing is what is known of a client by its names.
type standing struct {
	Result
	pending bool // an answer is waited for
	names   []string
	reason  string // why it isn't known
	until   int64
}

// of tells what is known of a client, and asks nothing.
func (p *proofs) of(client netip.Addr, now int64) standing {
	if x, until, ok := p.known.get(client, now); ok {
		return standing{Result: Proved, names: x.names, until: until}
	}
	if a := p.asked[client]; a != nil {
		if a.late {
			return standing{reason: "its names were not looked up in time"}
		}
		return standing{pending: true, reason: "its names are being looked up"}
	}
	if x, until, ok := p.unknown.get(client, now); ok {
		return standing{Result: x.result, reason: x.reason, until: until}
	}
	return standing{reason: "its names are not looked up yet"}
}

// ask tells what is known of a client, and asks if that is nothing.
func (p *proofs) ask(client netip.Addr, now int64) standing {
	s := p.of(client, now)
	switch {
	case s.Result == Proved:
		p.renew(client, &s, now)
		return s
	case !p.open(client, &s):
		return s
	case !p.crowds.room(client):
		p.dropped++
		return standing{reason: "too many clients of its network wait for their names to be looked up"}
	case len(p.asked) >= MaxQuestions && !p.makeRoom():
		p.dropped++
		return standing{reason: "too many clients wait for their names to be looked up"}
	}
	p.enqueue(client, asked{})
	return p.of(client, now)
}

func (p *proofs) enqueue(client netip.Addr, a asked) {
	p.asked[client] = &a
	p.crowds.add(client, 1)
	p.queue, p.none = append(p.queue, client), false
}

// forget has a client not be asked for any more.
func (p *proofs) forget(client netip.Addr) {
	a := p.asked[client]
	if a == nil {
		return
	}
	delete(p.asked, client)
	p.crowds.add(client, -1)
	if !a.taken {
		return
	}
	p.none = false
	of := network(client)
	if p.taken[of]--; p.taken[of] == 0 {
		delete(p.taken, of)
	}
}

// spareable reports whether somebody waits who can be asked for later, with his
// next event, as nothing has been decided against him. He is the first in the
// queue then.
func (p *proofs) spareable() bool {
	for ; len(p.queue) > 0; p.queue = p.queue[1:] {
		if a := p.asked[p.queue[0]]; a != nil && !a.taken && !a.urgent {
			return true
		}
	}
	return false
}

// makeRoom makes room for one who may be about to be banned, by the one who has
// waited longest and isn't.
func (p *proofs) makeRoom() bool {
	if !p.spareable() {
		return false
	}
	p.dropped++
	p.forget(p.queue[0])
	p.queue = p.queue[1:]
	return true
}

// renew asks again for a client whose proof ends soon, unless that has failed
// just now, or others need the room more.
func (p *proofs) renew(client netip.Addr, s *standing, now int64) {
	if s.until-now > renewal || p.asked[client] != nil || len(p.asked) >= MaxQuestions/2 || !p.crowds.room(client) {
		return
	}
	if _, _, failed := p.unknown.get(client, now); !failed {
		p.enqueue(client, asked{renews: true})
	}
}

// open reports whether nothing is known of a client, and nothing asked.
func (p *proofs) open(client netip.Addr, s *standing) bool {
	return s.Result == Unknown && s.until == 0 && p.asked[client] == nil
}

// wouldAsk reports whether ask would.
func (p *proofs) wouldAsk(client netip.Addr, s *standing) bool {
	return p.open(client, s) && p.crowds.room(client) && (len(p.asked) < MaxQuestions || p.spareable())
}

// hurry has a client that waits for its question to be taken be the next.
func (p *proofs) hurry(client netip.Addr) {
	if a := p.asked[client]; a != nil && !a.taken && !a.urgent {
		a.urgent = true
		p.urgent = append(p.urgent, client)
	}
}

// next takes a question off the queues. Those stay of whose network enough are
// looked up.
func (p *proofs) next() (Question, bool) {
	if p.none {
		return Question{}, false
	}
	for _, queue := range []*[]netip.Addr{&p.urgent, &p.queue} {
		*queue = slices.DeleteFunc(*queue, func(client netip.Addr) bool {
			a := p.asked[client]
			return a == nil || a.taken
		})
		for i, client := range *queue {
			of := network(client)
			if p.taken[of] >= MaxTaken {
				continue
			}
			p.asked[client].taken = true
			p.taken[of]++
			*queue = slices.Delete(*queue, i, i+1)
			return Question{client, p.domains, p.rules}, true
		}
	}
	p.none = true
	return Question{}, false
}

// take takes up an answer. Those to questions of other rules may be wrong by now,
// but for names: these are the client's.
func (p *proofs) take(a *Answer) (of bool) {
	if a.Result == Proved && len(a.Names) > 0 {
		p.unknown.delete(a.Client)
		p.known.put(a.Client, proved{a.Names}, a.Until)
	} else if a.Rules != p.rules {
		return false
	} else {
		if a.Result == Disproved {
			p.known.delete(a.Client)
		}
		p.unknown.put(a.Client, unproved{a.Result, a.Reason}, a.Until)
	}
	p.forget(a.Client)
	return true
}

// nameIn returns the first name that is one of the domains or below one.
func nameIn(names, domains []string) (name, domain string, ok bool) {
	for _, name := range names {
		for _, domain := range domains {
			if InDomain(name, domain) {
				return name, domain, true
			}
		}
	}
	return "", "", false
}

// InDomain reports whether a name is a domain or below it. Both are in lower
// case, without a dot at the end.
func InDomain(name, domain string) bool {
	rest, ok := strings.CutSuffix(name, domain)
	return ok && domain != "" && (rest == "" || strings.HasSuffix(rest, "."))
}

// Question returns the next client whose names are to be looked up, and false if
// there is none. An answer must follow, or else the client's decisions wait as
// long as they may.
func (e *Engine) Question() (Question, bool) {
	if e.proofs == nil {
		return Question{}, false
	}
	return e.proofs.next()
}

// Answer tells the engine what came of a question, or was known before. It
// reports what was put off of the client's decisions and is dropped, as it has
// proved to be a wanted machine: whatever it did was that machine's, so all that
// was counted of it is used up. Other decisions are due ([Engine.Due]).
func (e *Engine) Answer(a Answer) (spared int, usedUp bool) {
	p := e.proofs
	if p == nil {
		return 0, false
	}
	q := p.asked[a.Client]
	waited := q != nil && !q.renews
	if !p.take(&a) || !waited && e.postponed.clients[a.Client] == nil {
		return 0, false
	}
	if _, _, ok := nameIn(a.Names, p.domains); !ok {
		e.postponed.hasten(a.Client)
		return 0, false
	}
	e.UseUp(e.Target(a.Client))
	return e.postponed.drop(a.Client), true
}

// Named is what is known of a client that can prove by its names to be a wanted
// machine.
type Named struct {
	Result  Result
	Pending bool
	Names   []string
	Reason  string   // why it isn't known, or what disproves it
	Until   int64    // up to when that holds; 0: it isn't known how long
	Due     int64    // when decisions that wait for the answer are due; 0: there are none
	Jails   []string // whose decisions these are
}

// Named tells what is known of a client; false if nothing is.
func (e *Engine) Named(client netip.Addr, now int64) (Named, bool) {
	if e.proofs == nil {
		return Named{}, false
	}
	s := e.proofs.of(client, now)
	n := Named{Result: s.Result, Pending: s.pending, Names: s.names, Reason: s.reason, Until: s.until}
	if w := e.postponed.clients[client]; w != nil {
		n.Due = w.since + int64(MaxPostponement)
		for i := range w.decisions {
			n.Jails = append(n.Jails, w.decisions[i].rule)
		}
	}
	return n, s.Result != Unknown || s.until != 0 || n.Due != 0 || e.proofs.asked[client] != nil
}

// ProofStats are counters and sizes of proofs by name.
type ProofStats struct {
	On        bool   // a machine can be proved so
	Questions int    // clients without an answer
	Dropped   uint64 // that were not asked, or given up for others
	Proved    int
	Unproved  int
	Evicted   uint64 // of those proved
	Forgotten uint64 // of the others

	Postponed int    // decisions
	Refused   uint64 // decisions that were not put off, as there were too many
	Spared    uint64 // decisions that were dropped
}

// ProofStats returns them.
func (e *Engine) ProofStats() ProofStats {
	p, w := e.proofs, &e.postponed
	if p == nil {
		return ProofStats{}
	}
	return ProofStats{
		On: len(p.domains) > 0, Questions: len(p.asked), Dropped: p.dropped,
		Proved: p.known.len(), Unproved: p.unknown.len(), Evicted: p.known.evicted, Forgotten: p.unknown.evicted,
		Postponed: w.n, Refused: w.refused, Spared: w.spared,
	}
}

// MaxPostponement is how long a decision may wait for a proof.
const MaxPostponement = 30 * time.Second
