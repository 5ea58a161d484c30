package cloudflare

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// DefaultLease is how long a rule works without being renewed.
const DefaultLease = time.Hour

const (
	// leaseLooks is how often in a lease the rule is looked at, or more often, so that
	// maxLeasePause is between: somebody may have removed it.
	leaseLooks    = 4
	maxLeasePause = 15 * time.Minute

	minLeasePause = 15 * time.Second

	// findFirst is how long the rules wait for the list to be found at first.
	findFirst = time.Minute
)

// errNoList is of a rule that can't be made, as a rule can't name a list that isn't
// there.
var errNoList = errors.New("cloudflare: there is no rule, and none can be made as long as the list isn't found")

// Lease is the rule of a zone that blocks what is in the list.
type Lease struct {
	Zone     string
	Deadline time.Time // when it lapses if it is not renewed; zero: not known
	Off      bool      // somebody has turned it off, which is left so
	Err      error     // why it could not be renewed, or looked at
	Since    time.Time // of Err
}

// RunLease keeps the rules of all zones renewed until ctx is done, which is success;
// they lapse by themselves then. No failure ends it.
func (a *Action) RunLease(ctx context.Context) error {
	every := min(a.opt.Lease/leaseLooks, maxLeasePause)
	wait := time.Duration(0)
	again := minLeasePause
	first := time.NewTimer(findFirst)
	defer first.Stop()
	select {
	case <-a.found:
	case <-first.C: // a rule that is there is to be renewed
	case <-ctx.Done():
		return nil
	}
	for a.awaitRenewal(ctx, wait) {
		wait = every
		ok := true
		for _, zone := range a.opt.Zones {
			ok = a.renew(ctx, zone) && ok
		}
		if ok {
			again = minLeasePause
			continue
		}
		wait, again = min(again, every), 2*again
	}
	return nil
}

// awaitRenewal waits until the rules are to be looked at, and reports whether they are.
func (a *Action) awaitRenewal(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.rule:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// renew looks at the rule of a zone, and renews it if half of its time is over, it
// isn't there or somebody has changed it.
func (a *Action) renew(ctx context.Context, zone string) (ok bool) {
	l, err := a.renewed(ctx, zone)
	if ctx.Err() != nil {
		return false
	}
	a.mu.Lock()
	was := a.leases[zone]
	l.Zone, l.Err, l.Since = zone, err, was.Since
	if err != nil {
		l.Deadline = was.Deadline
	}
	if (err != nil) != (was.Err != nil) {
		l.Since = a.opt.now()
	}
	a.leases[zone] = l
	a.mu.Unlock()
	switch log := a.log.With(slog.String("zone", zone)); {
	case err != nil && was.Err == nil:
		log.Warn("the rule at Cloudflare can't be renewed: it lapses at its deadline, and then nobody is kept away there",
			slog.Time("deadline", was.Deadline), slog.Any("err", err))
	case err == nil && was.Err != nil:
		log.Info("the rule at Cloudflare is renewed again")
	case l.Off && !was.Off:
		log.Warn("somebody has turned off the rule at Cloudflare, so it keeps nobody away: it is left so")
	}
	return err == nil
}

func (a *Action) renewed(ctx context.Context, zone string) (l Lease, err error) {
	ref := refOf(a.opt.List)
	found, set, err := a.client.findRule(ctx, zone, ref)
	if err != nil {
		return Lease{}, err
	}
	now := a.time()
	r := &leaseRule{ref: ref, action: a.opt.RuleAction, list: a.opt.List, deadline: now.Add(a.opt.Lease).Truncate(time.Second), enabled: true}
	id := ""
	if found != nil {
		id, r.enabled = found.id, found.enabled
		deadline, ours := deadlineOf(found.expression, a.opt.List)
		// Too far ahead is wrong as well: by somebody's clock or hand.
		if left := deadline.Sub(now); ours && found.action == r.action && left > a.opt.Lease/2 && left <= a.opt.Lease+maxAhead {
			return Lease{Deadline: deadline, Off: !found.enabled}, nil
		}
	}
	if found == nil && !a.hasList() {
		return Lease{}, errNoList
	}
	a.mu.Lock()
	overdue := a.overdue(now)
	a.mu.Unlock()
	if overdue > 0 {
		return Lease{}, &overdueError{overdue}
	}
	if err := a.client.putRule(ctx, zone, set, id, r); err != nil {
		return Lease{}, err
	}
	return Lease{Deadline: r.deadline, Off: !r.enabled}, nil
}

func (a *Action) hasList() bool {
	select {
	case <-a.found:
		return true
	default:
		return false
	}
}

// maxAhead is how far beyond ours the deadline of another host may be.
const maxAhead = 24 * time.Hour

// Leases are the rules of the zones. With access rules, which have none, they are those
// zones that refuse the token, while others don't.
func (a *Action) Leases() []Lease {
	if a.opt.AccessRules {
		return a.refusing()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []Lease
	for _, zone := range a.opt.Zones {
		l := a.leases[zone]
		l.Zone = zone
		list = append(list, l)
	}
	return list
}

// Lapsed is a zone whose rule keeps nobody away, or that refuses rules, as far as is known; "": there is
// none.
func (a *Action) Lapsed() (zone string) {
	now := a.time()
	for _, l := range a.Leases() {
		if a.opt.AccessRules || l.Off || l.Deadline.Before(now) {
			return l.Zone
		}
	}
	return ""
}

// dropRules removes our rules, unless others have something in the list by which they
// would still be needed.
func (a *Action) dropRules(ctx context.Context) error {
	a.mu.Lock()
	now := a.time()
	for _, it := range a.cache.items {
		if it.ours && !it.mine && !it.over(now) {
			a.mu.Unlock()
			return nil
		}
	}
	a.mu.Unlock()
	for _, zone := range a.opt.Zones {
		r, _, err := a.client.findRule(ctx, zone, refOf(a.opt.List))
		if err == nil && r != nil {
			err = a.client.removeRule(ctx, zone, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
