// Package resolve keeps the addresses of host names current, in the
// background: nobody who asks for them ever waits for the DNS.
package resolve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/sleep"
)

const (
	// Interval is how long after one look-up of all names the next one
	// begins, give or take a tenth: many hosts started at once spread out.
	Interval = 5 * time.Minute

	// Timeout is how long a look-up of one name may take.
	Timeout = 5 * time.Second

	// MaxAddresses is how many addresses of a name are used.
	MaxAddresses = 64

	// firstRetry is when names are looked up again if there is one of which
	// no address is known at all; it doubles up to Interval.
	firstRetry = 10 * time.Second
)

// Host is a name with its addresses.
type Host struct {
	Name      string       `json:"name"`
	Addresses []netip.Addr `json:"addresses"` // sorted, unmapped, without zones; at most MaxAddresses
}

// Lookup finds the addresses of a name, IPv4 and IPv6. It returns when its
// context is done. [net.Resolver.LookupNetIP] for the network "ip" is one.
type Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

// Options make Hosts.
type Options struct {
	Names  []string
	Lookup Lookup
	File   string // where the last good addresses are kept; its folder must exist by the time of Run
	Log    *slog.Logger

	// Changed is called from Run when addresses have changed, with all names
	// of which there are any, in the order of Names. It keeps nothing of them.
	Changed func([]Host)
}

// Hosts are host names and their last good addresses.
type Hosts struct {
	opt    Options
	names  []*name
	stored []Host // what File holds
	unsafe bool   // File could not be written, and that was said
}

// name is one of them.
type name struct {
	Host
	failing bool // and that was said
	many    bool // more addresses than are used, and that was said
}

// New returns the names, without addresses. It reads nothing; see Load.
func New(o Options) *Hosts {
	h := &Hosts{opt: o}
	for _, n := range o.Names {
		h.names = append(h.names, &name{Host: Host{Name: n}})
	}
	return h
}

// Known returns the names of which there are addresses, in the order of
// Names. It must not be called while Run runs.
func (h *Hosts) Known() []Host {
	var out []Host
	for _, n := range h.names {
		if len(n.Addresses) > 0 {
			out = append(out, Host{n.Name, slices.Clone(n.Addresses)})
		}
	}
	return out
}

// Run looks the names up, at once and then every Interval, until the context
// is done, and returns nil. A name that can't be looked up keeps its last
// addresses, however old. It is called once.
func (h *Hosts) Run(ctx context.Context) error {
	if len(h.names) == 0 {
		<-ctx.Done()
		return nil
	}
	retry := firstRetry
	for {
		if changed := h.round(ctx); changed {
			h.opt.Changed(h.Known())
		}
		if ctx.Err() != nil {
			return nil
		}
		h.save()
		pause := Interval - Interval/10 + rand.N(Interval/5)
		if h.anyUnknown() && retry < pause {
			pause, retry = retry, 2*retry
		}
		if !sleep.For(ctx, pause) {
			return nil
		}
	}
}

func (h *Hosts) anyUnknown() bool {
	return slices.ContainsFunc(h.names, func(n *name) bool { return len(n.Addresses) == 0 })
}

// answer is what came of a look-up.
type answer struct {
	addresses []netip.Addr
	err       error
}

// round looks all names up, at the same time, and reports whether addresses
// have changed.
func (h *Hosts) round(ctx context.Context) (changed bool) {
	answers := make([]answer, len(h.names))
	var all sync.WaitGroup
	for i, n := range h.names {
		all.Go(func() { answers[i] = h.look(ctx, n.Name) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return false // what failed, failed because of that
	}
	for i, n := range h.names {
		changed = n.take(answers[i], h.opt.Log) || changed
	}
	return changed
}

func (h *Hosts) look(ctx context.Context, name string) answer {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	found, err := h.opt.Lookup(ctx, name)
	if err != nil {
		return answer{err: err}
	}
	found = tidy(found)
	if len(found) == 0 {
		return answer{err: errors.New("the name has no address")}
	}
	return answer{addresses: found}
}

// take makes an answer the name's, unless it is none.
func (n *name) take(a answer, log *slog.Logger) (changed bool) {
	if a.err != nil {
		if !n.failing {
			msg := "host name can't be looked up: its last good addresses stay"
			if len(n.Addresses) == 0 {
				msg = "host name can't be looked up: whoever has it is like anybody until it can"
			}
			log.Warn(msg, slog.String("name", n.Name), slog.Int("addresses", len(n.Addresses)), slog.Any("err", a.err))
		}
		n.failing = true
		return false
	}
	if n.failing {
		log.Info("host name can be looked up again", slog.String("name", n.Name), slog.Int("addresses", len(a.addresses)))
	}
	n.failing = false
	many := len(a.addresses) > MaxAddresses
	if many && !n.many {
		log.Warn("host name has more addresses than are used: the others are like anybody's",
			slog.String("name", n.Name), slog.Int("addresses", len(a.addresses)), slog.Int("used", MaxAddresses))
	}
	n.many = many
	used := a.addresses[:min(len(a.addresses), MaxAddresses)]
	if slices.Equal(used, n.Addresses) {
		return false
	}
	n.Addresses = used
	return true
}

// tidy returns addresses as Host has them, without a limit.
func tidy(found []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range found {
		if a.IsValid() && a.Zone() == "" {
			out = append(out, a.Unmap())
		}
	}
	slices.SortFunc(out, func(a, b netip.Addr) int { return cmp.Or(a.BitLen()-b.BitLen(), a.Compare(b)) })
	return slices.Compact(out)
}
