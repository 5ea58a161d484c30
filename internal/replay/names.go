package replay

import (
	"context"
	"math"

	"github.com/tailban/tailban/detector"
)

// lookUp answers what the engine asks about names because of the latest line,
// which is of a time, and takes what comes of it. The DNS is that of today,
// whenever the lines are of.
func (r *replay) lookUp(ctx context.Context, at int64) error {
	for q, ok := r.engine.Question(); ok; q, ok = r.engine.Question() {
		a := r.prover.Look(ctx, q)
		a.Until = math.MaxInt64
		r.engine.Answer(a)
		r.sum.names++
	}
	for v := r.engine.Due(at, noted); v != nil; v = r.engine.Due(at, noted) {
		if err := r.decisions(v); err != nil {
			return err
		}
	}
	return nil
}

// noted is for the engine to tell whose line it goes on with: there is one log.
func noted(string) {}

// grouped is a proof as the summary counts it: machines can have a name each.
func grouped(p detector.Proof) detector.Proof {
	p.Name = ""
	return p
}
