package detector

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// MaxPardons is how many pardons there may be at a time.
const MaxPardons = 10_000

// pardons says whose events don't count, up to which time.
type pardons struct {
	in *bart.Table[[]pardon] // by target
	n  int

	found []pardon // those that hold for the event at hand
}

type pardon struct {
	jail   string // "": all
	before int64
}

// find looks up what is forgiven a client at a time.
func (p *pardons) find(client netip.Addr, at int64) {
	p.found = p.found[:0]
	if !p.in.Contains(client) {
		return
	}
	for _, here := range p.in.Supernets(single(client)) {
		for _, x := range here {
			if at <= x.before {
				p.found = append(p.found, x)
			}
		}
	}
}

// forgives reports whether the event that was looked up doesn't count in a
// jail. No pardons forgive nothing.
func (p *pardons) forgives(jail string) bool {
	if p == nil {
		return false
	}
	for _, x := range p.found {
		if x.jail == "" || x.jail == jail {
			return true
		}
	}
	return false
}

// Forgive keeps events of clients inside target, a prefix of any length, from
// counting in a jail ("": in none, and they are no longer denied either;
// DenyName: that alone) if their time is not after before, in nanoseconds
// since the epoch, in whatever order they come. Of several pardons any that
// holds is enough; of several for the same target and jail the one that goes
// further stays. It fails if there are MaxPardons already. What has counted
// before is forgotten by [Engine.Clear].
func (e *Engine) Forgive(target netip.Prefix, jail string, before int64) bool {
	if e.pardons == nil {
		e.pardons = &pardons{in: new(bart.Table[[]pardon])}
	}
	p := e.pardons
	target = target.Masked()
	here, _ := p.in.Get(target)
	for i := range here {
		if here[i].jail == jail {
			here[i].before = max(here[i].before, before)
			return true
		}
	}
	if p.n >= MaxPardons {
		return false
	}
	p.in.Insert(target, append(here, pardon{jail, before}))
	p.n++
	return true
}

// Unforgive ends the pardon of exactly that target and jail.
func (e *Engine) Unforgive(target netip.Prefix, jail string) {
	p := e.pardons
	if p == nil {
		return
	}
	target = target.Masked()
	here, _ := p.in.Get(target)
	for i := range here {
		if here[i].jail != jail {
			continue
		}
		p.n--
		switch {
		case p.n == 0:
			e.pardons = nil
		case len(here) == 1:
			p.in.Delete(target)
		default:
			p.in.Insert(target, append(here[:i:i], here[i+1:]...))
		}
		return
	}
}
