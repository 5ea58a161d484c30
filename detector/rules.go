package detector

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/gaissmai/bart"
	"github.com/tailban/tailban/parser"
)

// Limits of what an Engine remembers, where the options say nothing.
const (
	DefaultMaxMemory = 64 << 20 // bytes, of windows
	DefaultMaxBans   = 100_000
	DefaultRemember  = 30 * 24 * time.Hour
	maxOffences      = 200_000
)

// Options make an Engine.
type Options struct {
	Jails     []Jail
	Wanted    []Wanted
	Deny      *Deny // nil: nobody is denied
	Trusted   []netip.Prefix
	Allow     []netip.Prefix
	Guard     Guard         // nil: nobody is protected
	MaxMemory int64         // bytes for windows; 0: DefaultMaxMemory
	MaxBans   int           // targets known to be banned; 0: DefaultMaxBans
	Remember  time.Duration // how long an offence counts, where the rule doesn't say; 0: DefaultRemember

	// SharedHistory has one count of offences per target in place of one per
	// rule and target, which all count for Remember.
	SharedHistory bool

	// LooksUp says that questions about the names of clients are answered. If
	// they aren't, who could only prove by his name to be a wanted machine is an
	// ordinary client; see [Decision.Claims].
	LooksUp bool
}

// Rules are Options made ready for use. They are never changed, and may be used
// by several engines at once.
type Rules struct {
	opt      Options
	resolver *parser.Resolver
	allow    *bart.Lite
	jails    []jailRules
	wanted   []wantedRules
	domains  []string // of all wanted
	deny     *denyRules
	programs map[string]*program      // by log
	remember map[string]time.Duration // by history, where it is not the options'
}

type jailRules struct {
	*Jail
	identity string // of its windows: what they count
	limits   limits
	matcher  matcher
}

// denyRules are those who are banned at first sight.
type denyRules struct {
	*Deny
	agents agents
	from   *bart.Lite // nil: nobody
}

func (d *denyRules) holds(client netip.Addr, ev *event) bool {
	return d.from != nil && d.from.Contains(client) || !d.agents.empty() && d.agents.in(ev.agent())
}

// Compile does what takes long about new options, as a list of many addresses
// does. It may be called from any goroutine. The options are trusted to be
// checked.
func Compile(o Options) *Rules {
	if o.MaxMemory == 0 {
		o.MaxMemory = DefaultMaxMemory
	}
	if o.MaxBans == 0 {
		o.MaxBans = DefaultMaxBans
	}
	if o.Remember == 0 {
		o.Remember = DefaultRemember
	}
	o.Jails, o.Wanted = slices.Clone(o.Jails), slices.Clone(o.Wanted)
	r := &Rules{
		opt:      o,
		resolver: parser.NewResolver(o.Trusted),
		allow:    newSet(o.Allow),
		remember: map[string]time.Duration{},
	}
	for i := range o.Jails {
		j := &o.Jails[i]
		r.jails = append(r.jails, jailRules{
			Jail:     j,
			identity: identity(j),
			limits:   newLimits(j),
			matcher:  newMatcher(&j.Where),
		})
		r.rememberAs(j.Name, j.Remember)
	}
	lists := maxTables
	for i := range o.Wanted {
		r.wanted = append(r.wanted, newWantedRules(&o.Wanted[i]))
		r.wanted[i].agents.index(&lists)
		r.domains = append(r.domains, o.Wanted[i].Domains...)
	}
	slices.Sort(r.domains)
	r.domains = slices.Compact(r.domains)
	if d := o.Deny; d != nil {
		r.deny = &denyRules{Deny: d, agents: newAgents(d.Agents), from: newSet(d.From)}
		r.deny.agents.index(&lists)
		r.rememberAs(DenyName, d.Remember)
	}
	r.compilePrograms(maxTables, lists)
	return r
}

// identity says what decides which events a jail's windows hold, and for how
// long. Quoted, so that it can't be read in two ways. The logs are not part of
// it: who adds a site must not have all counts begin anew, and what a log that
// is gone has counted ages out. It outlives the program in snapshots, so that
// what is added to conditions must not change it for jails that don't use it.
func identity(j *Jail) string {
	type lists struct { // exported, so that fmt sees their String
		Methods   []string
		Paths     []PathPattern
		Status    []StatusRange
		Agents    []string
		Protocols []string
	}
	of := func(c *Conditions) lists { return lists{c.Methods, c.Paths, c.Status, c.Agents, c.Protocols} }
	text := fmt.Sprintf("%q %d %q", j.Name, j.Window, struct{ Match, Not lists }{of(&j.Where.Match), of(&j.Where.Not)})
	if j.Where.Match.FalseCrawler {
		text += " false"
	}
	if j.Where.Not.FalseCrawler {
		text += " not false"
	}
	return text
}

// rememberAs notes how long the offences of a rule count, if it has a history
// and a time of its own.
func (r *Rules) rememberAs(rule string, d time.Duration) {
	if d > 0 && !r.opt.SharedHistory {
		r.remember[rule] = d
	}
}

// newSet returns a set of prefixes, nil if there are none.
func newSet(prefixes []netip.Prefix) *bart.Lite {
	if len(prefixes) == 0 {
		return nil
	}
	set := new(bart.Lite)
	for _, p := range prefixes {
		set.Insert(p)
	}
	return set
}
