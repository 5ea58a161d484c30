//go:build linux

package actions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/argv"
)

const (
	// manyFails is how often a program must have failed for a target before
	// that is taken for the target's fault.
	manyFails = 3
	// smaller is by how many bits the number of targets of a run is divided
	// for each time that they have failed.
	smaller = 3
	// maxInVain is after how many failures in a row, with no success before
	// them, the rest is left for later.
	maxInVain = 8
)

// errNotTried is of what was left for later.
var errNotTried = errors.New("not tried, as the program has failed for all that were")

// ErrRefused is wrapped by the rejection of a target for which a program fails
// again and again. If it is to ban it works for others.
var ErrRefused = errors.New("the program fails for this target")

// item is what a run is to do for one target.
type item struct {
	target netip.Prefix
	until  time.Time // of a ban
	err    error
}

// job is one run.
type job struct {
	verb  argv.Verb
	items []*item
	fails int // of each item before
}

// jobs divides items into runs: as many as may be in one, fewer of those that
// have failed.
func (c *Command) jobs(v argv.Verb, items []*item) []*job {
	byFails := map[int][]*item{}
	c.mu.Lock()
	for _, it := range items {
		n := min(c.memory.fails(it.target), manyFails*10)
		byFails[n] = append(byFails[n], it)
	}
	c.mu.Unlock()
	var jobs []*job
	for fails, same := range byFails {
		size := max(1, c.opt.Batch>>min(smaller*fails, 62))
		for part := range slices.Chunk(same, size) {
			jobs = append(jobs, &job{verb: v, items: part, fails: fails})
		}
	}
	return jobs
}

// carry does all jobs, as many at a time as there are slots, those that have
// failed last. Items that are not to be done any longer when their turn comes,
// as still says, are left out; nil: none.
func (c *Command) carry(ctx context.Context, jobs []*job, still func(*item) bool) {
	slices.SortStableFunc(jobs, func(a, b *job) int { return cmp.Compare(a.fails, b.fails) })
	c.mu.Lock()
	worked := c.memory.worked
	c.mu.Unlock()
	tried := map[argv.Verb]*vain{argv.Ban: {}, argv.Unban: {}}
	workers := make(chan struct{}, c.opt.Concurrency)
	var all sync.WaitGroup
	defer c.noteVain(tried[argv.Unban])
	defer all.Wait()
	for i, j := range jobs {
		select {
		case workers <- struct{}{}:
		case <-ctx.Done():
			for _, left := range jobs[i:] {
				left.fail(ctx.Err())
			}
			return
		}
		all.Go(func() {
			defer func() { <-workers }()
			// What has been given up before is tried nevertheless: nothing else may
			// be to do. Of removals it matters less which are, as all are given up then.
			if (j.fails < manyFails || j.verb == argv.Unban) && tried[j.verb].inVain() {
				j.fail(errNotTried)
				c.notTried(j)
				return
			}
			tried[j.verb].note(c.do(ctx, j, still, worked))
		})
	}
}

// notTried notes of removals that were left for later that they are overdue.
func (c *Command) notTried(j *job) {
	if j.verb != argv.Unban {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, it := range j.items {
		c.memory.notTried(it.target, now)
	}
}

// vain counts tries until one succeeds.
type vain struct {
	mu     sync.Mutex
	failed int
	worked bool
}

func (v *vain) inVain() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.worked && v.failed >= maxInVain
}

func (v *vain) note(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.worked = v.worked || err == nil
	v.failed++
}

// noteVain counts the times in a row that no removal has worked.
func (c *Command) noteVain(v *vain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case v.worked:
		c.memory.vain = 0
	case v.failed > 0:
		c.memory.vain++
	}
}

func (j *job) fail(err error) {
	for _, it := range j.items {
		it.err = err
	}
}

// do runs the program for one job and remembers what came of it. worked is
// memory.worked as it was before the first.
func (c *Command) do(ctx context.Context, j *job, still func(*item) bool, worked uint64) error {
	release, err := c.claim(ctx, j.items)
	if err != nil {
		j.fail(err)
		return err
	}
	defer release()
	if still != nil {
		j.items = slices.DeleteFunc(j.items, func(it *item) bool { return !still(it) })
		if len(j.items) == 0 {
			return nil
		}
	}
	err = c.runFor(ctx, j)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range j.items {
		it.err = err
		if err == nil {
			c.worked(j.verb, it)
		} else {
			c.memory.failed(it.target, it.until, now, len(j.items) == 1, worked, err)
		}
	}
	return err
}

// worked notes that something is as it should be. c.mu must be held.
func (c *Command) worked(v argv.Verb, it *item) {
	if v == argv.Ban {
		c.memory.banned(it.target, it.until)
	} else {
		c.memory.unbanned(it.target)
	}
}

// claim waits until no program is at work on any of the targets, and keeps
// others from them until it is released.
func (c *Command) claim(ctx context.Context, items []*item) (release func(), err error) {
	for {
		c.mu.Lock()
		busy := c.busyWith(items)
		if busy == nil {
			done := make(chan struct{})
			for _, it := range items {
				c.memory.busy[it.target] = done
			}
			c.mu.Unlock()
			claimed := slices.Clone(items)
			return func() { c.release(claimed, done) }, nil
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *Command) busyWith(items []*item) chan struct{} {
	for _, it := range items {
		if busy := c.memory.busy[it.target]; busy != nil {
			return busy
		}
	}
	return nil
}

func (c *Command) release(items []*item, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range items {
		delete(c.memory.busy, it.target)
	}
	close(done)
}

// runFor runs the program for the items of a job.
func (c *Command) runFor(ctx context.Context, j *job) error {
	t := c.ban
	if j.verb == argv.Unban {
		t = c.unban
	}
	now := time.Now()
	var first values
	var stdin []byte
	for i, it := range j.items {
		v := valuesOf(it.target)
		if j.verb == argv.Ban {
			v = v.timed(it.until.Sub(now), now)
		}
		if i == 0 {
			first = v
		}
		stdin = v.appendLine(stdin, j.verb)
	}
	_, _, err := c.run(ctx, t, first, stdin, maxSaid)
	return err
}

// run runs a program when there is a slot, and counts it.
func (c *Command) run(ctx context.Context, t argv.Template, v values, stdin []byte, keep int) (out []byte, cut bool, err error) {
	giveBack, err := c.slots.take(ctx, t.Verb)
	if err != nil {
		return nil, false, err
	}
	defer giveBack()
	out, cut, err = execute(ctx, program{argv: t.Expand(v.fill), stdin: stdin, limit: c.opt.Timeout, keep: keep})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Runs++
	if err == nil {
		return out, cut, nil
	}
	if t.Verb != argv.Check || exitStatus(err) != exitNotThere {
		c.stats.Failures++
	}
	if errors.Is(err, errTooLong) {
		c.stats.Timeouts++
	}
	return nil, false, fmt.Errorf("%s: %w", t.Program(), err)
}

// verdict is what Apply returns.
func (c *Command) verdict(ctx context.Context, jobs []*job, rejected []Rejection) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f := failures{}
	var kept []Rejection
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		for _, it := range j.items {
			f.all++
			switch {
			case it.err == nil:
			case j.verb == argv.Ban && c.memory.refuses(it.target):
				rejected = append(rejected, c.refusal(it))
			case j.verb == argv.Unban && c.memory.keeps(it.target):
				kept = append(kept, c.refusal(it))
			default:
				f.put(j.verb, it)
			}
		}
	}
	switch {
	case f.failed > 0:
		return f.error()
	case len(rejected) > 0 || len(kept) > 0:
		return &RejectedError{Rejected: rejected, Kept: kept}
	}
	return nil
}

// refusal is of a target for which a program fails. c.mu must be held.
func (c *Command) refusal(it *item) Rejection {
	if errors.Is(it.err, errNotTried) {
		return Rejection{it.target, fmt.Errorf("%w: %w", ErrRefused, it.err)}
	}
	return Rejection{it.target, fmt.Errorf("%w (%d times): %w", ErrRefused, c.memory.fails(it.target), it.err)}
}

// failures are put together into one error.
type failures struct {
	all, failed int
	named       []string
	permanent   bool
}

func (f *failures) put(v argv.Verb, it *item) {
	f.failed++
	f.permanent = f.permanent || errors.Is(it.err, ErrPermanent)
	if len(f.named) < maxNamed && !errors.Is(it.err, errNotTried) {
		f.named = append(f.named, fmt.Sprintf("%s %s: %v", v, it.target, it.err))
	}
}

func (f *failures) error() error {
	err := fmt.Errorf("%d of %d changes failed: %s", f.failed, f.all, strings.Join(f.named, "; "))
	if f.permanent {
		return Permanent(err)
	}
	return err
}
