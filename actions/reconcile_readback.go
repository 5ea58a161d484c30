package actions

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"
)

const (
	// sample is how many bans of what was written are read back, and
	// samplePause how long it is left at that, at least: an action that takes
	// long to tell is asked more rarely.
	sample      = 4
	samplePause = time.Second

	// tooShort is for bans that may end while they are read.
	tooShort = 5 * time.Second
)

// readSample asks the action for some of what it has just taken. If it does
// not hold that, everything is compared.
func (r *Reconciler) readSample(ctx context.Context, p *plan, applied time.Time) {
	h, ok := r.opt.Action.(Holder)
	if !ok || applied.Before(r.readNext) {
		return
	}
	defer func() {
		r.readNext = applied.Add(max(samplePause, fullShare*r.opt.Now().Sub(applied)))
	}()
	for range min(sample, len(p.add)) {
		want := p.add[rand.N(len(p.add))]
		if want.Left < tooShort || !r.stands(want.Target) {
			continue
		}
		var e Entry
		var held bool
		err := r.call(func() (err error) { e, held, err = h.Held(ctx, want.Target); return err })
		if err != nil {
			return // the next pass will meet what is wrong
		}
		if held && sameTime(e.Left, want.Left-r.opt.Now().Sub(applied), r.opt.Now().Sub(applied)) {
			continue
		}
		r.mu.Lock()
		r.stats.Misheld++
		r.lost = true
		r.mu.Unlock()
		r.notify()
		r.log.Warn("a ban that was written is not held as it should be: comparing all",
			slog.String("target", want.Target.String()), slog.Bool("held", held))
		return
	}
}

func sameTime(has, left, slack time.Duration) bool {
	return has > 0 && (has-left).Abs() <= tolerance(left)+slack
}

// stands reports whether a ban is still wanted, and was not rejected.
func (r *Reconciler) stands(target netip.Prefix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.desired[target]
	return ok && !w.rejected && !w.out
}

// readAll lists what the action holds once more after a full pass has changed
// it. An error says that it did not do what it said.
func (r *Reconciler) readAll(ctx context.Context, p *plan, applied time.Time) error {
	if p.empty() {
		return nil
	}
	held, err := r.list(ctx)
	if err != nil {
		return fmt.Errorf("list bans of action %s: %w", r.opt.Name, err)
	}
	slack := r.opt.Now().Sub(applied)
	there := make(map[netip.Prefix]time.Duration, len(held))
	for _, e := range held {
		there[e.Target] = e.Left
	}
	wrong, example := 0, netip.Prefix{}
	for _, e := range p.add {
		has, ok := there[e.Target]
		if e.Left < tooShort+slack || ok && sameTime(has, e.Left-slack, slack) || !r.stands(e.Target) {
			continue
		}
		wrong++
		example = e.Target
	}
	for _, t := range p.remove {
		if has, ok := there[t]; ok && (has <= 0 || has > tolerance(0)+slack) && !r.stands(t) {
			wrong++
			example = t
		}
	}
	if wrong == 0 {
		return nil
	}
	r.mu.Lock()
	r.stats.Misheld += uint64(wrong)
	r.mu.Unlock()
	return fmt.Errorf("read back from action %s: %d bans are not as they were written, %s among them (does somebody else change them?)",
		r.opt.Name, wrong, example)
}
