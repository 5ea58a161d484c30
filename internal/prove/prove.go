// Package prove finds out whether clients are the machines that they claim to be,
// by their names: a name of the client's address lies in a domain of the
// machine's, and that name has the address (forward-confirmed reverse DNS). It
// does so in the background: nobody who asks ever waits for the DNS.
package prove

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/sleep"
	"golang.org/x/time/rate"
)

// Bounds of what is looked up. Clients that are strangers have us do it.
const (
	AtOnce    = 32 // clients whose names are looked up for the first time
	Again     = 8  // others, for which that has failed
	PerSecond = 50 // look-ups that are begun

	// Timeout is how long one look-up may take; patience all those of a client,
	// which are up to five. One that fails has them all done again, once, after a
	// pause: a decision can wait for that long.
	Timeout  = 5 * time.Second
	patience = 10 * time.Second
	pause    = 4 * time.Second
)

// How long answers hold. Names of machines are rarely changed; who isn't one now
// may be soon, as when a new machine gets its name; and a DNS that fails is
// likely to be repaired.
const (
	ProvedFor    = 24 * time.Hour
	DisprovedFor = time.Hour
	FailedFor    = time.Minute
)

// Resolver looks up the DNS. It returns when its context is done. [net.Resolver]
// is one.
type Resolver interface {
	LookupAddr(ctx context.Context, addr string) (names []string, err error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// System returns a resolver that asks the servers of /etc/resolv.conf. It is Go's
// own, which can be given up on at any time and needs no thread for each look-up.
// It looks into /etc/hosts first, both ways: what is there is the
// administrator's word, as it is for all other programs.
func System() Resolver { return &net.Resolver{PreferGo: true, StrictErrors: true} }

// Options make a Prover.
type Options struct {
	Resolver Resolver
	File     string // where those that are proved are kept; its folder must exist by the time of Run
	Log      *slog.Logger
}

// Prover answers questions.
type Prover struct {
	Questions chan detector.Question // taken when there is room; whoever sends some must take the answers
	Answers   chan detector.Answer   // one for each

	opt  Options
	pace *rate.Limiter

	mu     sync.Mutex
	stats  Stats
	proved map[netip.Addr]stored
	saved  bool // the file holds these

	unsafe bool // the file could not be written, and that was said; of keepSaved
}

// Stats are counters since the start.
type Stats struct {
	LookUps   uint64 // look-ups that were begun
	Proved    uint64 // clients
	Disproved uint64
	Failed    uint64 // clients of which it could not be found out
}

// New makes a Prover. It reads nothing; see Load.
func New(o Options) *Prover {
	return &Prover{
		Questions: make(chan detector.Question), Answers: make(chan detector.Answer), opt: o, pace: rate.NewLimiter(PerSecond, 1),
		proved: map[netip.Addr]stored{}, saved: true,
	}
}

// Stats returns the counters.
func (p *Prover) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Run answers questions until the context is done, and returns nil. It is called
// once.
func (p *Prover) Run(ctx context.Context) error {
	var all sync.WaitGroup
	all.Go(func() { p.keepSaved(ctx) })
	defer all.Wait()
	// A place is a client's until its look-ups are done. If each had to wait for a
	// turn, those whose DNS is slow would have others wait twice, and too long. They
	// have places of their own when they come again, for the same reason.
	first := make(chan struct{}, AtOnce) // others wait where they can still be put in order
	again := make(chan struct{}, Again)
	for {
		select {
		case first <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		select {
		case q := <-p.Questions:
			all.Go(func() {
				a := p.Look(ctx, q)
				<-first
				if a.Result == detector.Unknown && sleep.For(ctx, pause) {
					a = p.lookAgain(ctx, again, a)
				}
				p.answer(ctx, a)
			})
		case <-ctx.Done():
			return nil
		}
	}
}

// lookAgain looks once more for what could not be found out, if there is a place
// for that in time.
func (p *Prover) lookAgain(ctx context.Context, places chan struct{}, failed detector.Answer) detector.Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return failed
	}
	defer func() { <-places }()
	return p.Look(ctx, failed.Question)
}

// Look looks for the answer to a question once, and waits for that. How long it
// holds is for others to say.
func (p *Prover) Look(ctx context.Context, q detector.Question) detector.Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := p.look(ctx, q.Client, q.Domains)
	a.Question = q
	return a
}

// answer hands an answer over, unless it is cut off by the end.
func (p *Prover) answer(ctx context.Context, a detector.Answer) {
	if ctx.Err() != nil {
		return
	}
	length := map[detector.Result]time.Duration{detector.Proved: ProvedFor, detector.Disproved: DisprovedFor, detector.Unknown: FailedFor}
	a.Until = time.Now().Add(length[a.Result]).UnixNano()
	p.count(&a)
	select {
	case p.Answers <- a:
	case <-ctx.Done():
	}
}

func (p *Prover) count(a *detector.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch a.Result {
	case detector.Proved:
		p.stats.Proved++
		p.remember(a)
	case detector.Disproved:
		p.stats.Disproved++
		if _, was := p.proved[a.Client]; was {
			delete(p.proved, a.Client)
			p.saved = false
		}
	case detector.Unknown:
		p.stats.Failed++
	}
}

var errNoTime = errors.New("no turn in time")

// begin waits for the turn of a look-up, and returns the context that it has. done
// must be called behind it.
func (p *Prover) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	if p.pace.Wait(ctx) != nil {
		return nil, nil, errNoTime
	}
	p.mu.Lock()
	p.stats.LookUps++
	p.mu.Unlock()
	ctx, done = context.WithTimeout(ctx, Timeout)
	return ctx, done, nil
}
