package fakecloudflare

import (
	"math/rand/v2"
	"net/http"
	"strings"
)

// A Fault is what goes wrong with a request.
type Fault int

// The faults up to ResetBefore happen before anything is done, those from ResetAfter
// on when all is done and only the answer suffers: trying again has to be harmless.
const (
	NoFault       Fault = iota
	InternalError       // 500 with a page in HTML
	BadGateway          // 502 with a page in HTML
	NoSuccess           // 200 with "success": false
	FalseAuth           // 403, code 10000, for a token that is good
	FalseLimit          // 429 without a Retry-After
	ResetBefore         // the connection ends

	ResetAfter     // the connection ends
	GatewayTimeout // 504 with a page in HTML
	CutAnswer      // the JSON stops in the middle
	SlowAnswer     // the answer comes after Options.Slow

	FailedOperation // a change of items is taken in, and its operation fails; of no effect on others
	numFaults
)

func (f Fault) String() string {
	return [...]string{"none", "internal error", "bad gateway", "no success", "false auth error", "false limit",
		"reset before", "reset after", "gateway timeout", "cut answer", "slow answer", "failed operation"}[f]
}

// AllFaults gives every fault there is.
func AllFaults() []Fault {
	var out []Fault
	for f := NoFault + 1; f < numFaults; f++ {
		out = append(out, f)
	}
	return out
}

// Applied says whether a request with this fault has its effect all the same.
func (f Fault) Applied() bool {
	return f == NoFault || f > ResetBefore && f != FailedOperation
}

// page is what a proxy between client and API answers by itself.
func (f Fault) page() (string, bool) {
	switch f {
	case InternalError, BadGateway, GatewayTimeout:
		return "<!DOCTYPE html>\n<html><head><title>api.cloudflare.com | " + f.String() +
			"</title></head><body><h1>Error</h1></body></html>\n", true
	}
	return "", false
}

// faults decides which request has which fault: those named by FailNext first, the
// rest by chance.
type faults struct {
	rng     *rand.Rand
	chances []chance
	next    []planned
}

type chance struct {
	fault Fault
	share float64
}

type planned struct {
	method, path string
	fault        Fault
}

func newFaults(seed uint64) faults { return faults{rng: rand.New(rand.NewPCG(seed, 2))} }

// SetFaults makes each of some faults fall on a share of requests (0.05: one in
// twenty), beside those set before. A share of 0 ends it; so does NoFaults, for all.
func (s *Server) SetFaults(share float64, which ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range which {
		s.faults.set(f, share)
	}
}

func (f *faults) set(which Fault, share float64) {
	for i := range f.chances {
		if f.chances[i].fault == which {
			f.chances[i].share = share
			return
		}
	}
	f.chances = append(f.chances, chance{which, share})
}

// NoFaults ends all faults, also planned ones.
func (s *Server) NoFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.chances, s.faults.next = nil, nil
}

// FailNext makes a fault fall on the next request with a method ("" is any) whose
// path contains a text. Several wait in their order, each for one request.
func (s *Server) FailNext(method, path string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.next = append(s.faults.next, planned{method, path, f})
}

// draw decides the fault of a request.
func (f *faults) draw(r *Request) Fault {
	for i, p := range f.next {
		if (p.method == "" || p.method == r.Method) && strings.Contains(r.Path, p.path) {
			f.next = append(f.next[:i:i], f.next[i+1:]...)
			return p.fault
		}
	}
	if len(f.chances) == 0 {
		return NoFault
	}
	x := f.rng.Float64()
	for _, c := range f.chances {
		if x -= c.share; x < 0 {
			return c.fault
		}
	}
	return NoFault
}

// before gives the answer of a fault that keeps a request from having any effect.
func (f *faults) before(r *Request) (answer, bool) {
	r.Fault = f.draw(r)
	switch r.Fault {
	case InternalError:
		return answer{status: http.StatusInternalServerError}, true
	case BadGateway:
		return answer{status: http.StatusBadGateway}, true
	case NoSuccess:
		return refuse(http.StatusOK, 10000, "internal error"), true
	case FalseAuth:
		return refuse(http.StatusForbidden, codeAuthentication, "Authentication error"), true
	case FalseLimit:
		return refuse(http.StatusTooManyRequests, codeRateLimited, "you have been ratelimited please wait and try again"), true
	case ResetBefore:
		return answer{}, true
	}
	return answer{}, false
}

// after changes the answer to a request that had its effect.
func (a *answer) after(f Fault) {
	switch f {
	case GatewayTimeout:
		a.status, a.errs = http.StatusGatewayTimeout, nil
	case ResetAfter:
		a.status, a.errs = 0, nil
	}
}
