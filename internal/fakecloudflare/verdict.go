package fakecloudflare

import (
	"net/netip"
	"time"
)

// A Verdict is what the edge does with a visit: Action is that of the rule that
// decided ("block", "managed_challenge", …), or empty where the visit goes through.
type Verdict struct {
	Action string
	Rule   string // id of the custom rule or access rule that decided; also of one that lets it through
}

// Blocked says whether the edge of the first zone blocks a client's request at a
// time. Lists and rules are as they are now, by the double's clock; the time is what
// expressions compare with.
func (s *Server) Blocked(a netip.Addr, at time.Time) bool {
	return s.Decide(s.firstZone(), Visit{Addr: a, At: at}).Action == "block"
}

func (s *Server) firstZone() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, z := range s.opt.Accounts[0].Zones {
		return z.ID
	}
	return ""
}

// Decide says what the edge of a zone does with a visit. Access rules come before
// custom rules: one that allows ends it, one that blocks or challenges decides.
func (s *Server) Decide(zoneID string, v Visit) Verdict {
	s.lock()
	defer s.mu.Unlock()
	z := s.zones[zoneID]
	if z == nil {
		return Verdict{}
	}
	v.Addr = v.Addr.Unmap()
	if r := decideAccess(v.Addr, z.account.access, z.access); r != nil {
		if r.mode == modeAllow {
			return Verdict{Rule: r.id}
		}
		return Verdict{Action: r.mode, Rule: r.id}
	}
	if z.rules == nil {
		return Verdict{}
	}
	inList := func(name string, a netip.Addr) bool {
		l := z.account.named(name)
		return l != nil && l.covers(a)
	}
	for _, r := range z.rules.rules {
		if !*r.Enabled || r.expr == nil || !r.expr.match(v, inList) {
			continue
		}
		switch r.Action {
		case "log":
		case "skip":
			return Verdict{Rule: r.id}
		default:
			return Verdict{Action: r.Action, Rule: r.id}
		}
	}
	return Verdict{}
}
