package replay

import (
	"errors"
	"io"

	"github.com/tailban/tailban/detector"
)

const (
	// batchesAhead is how many batches there are of a file that is parsed ahead: one
	// that the engine is at, one that is being parsed, and some between them, so
	// that neither waits for the other at each.
	batchesAhead = 8

	// filesAhead is of how many files lines are parsed ahead at the same time.
	filesAhead = 4
)

// ahead parses on a goroutine of its own while the engine takes the batches
// before: two cores are used, and since each of both sees all lines in order,
// nothing that comes out is any different.
type ahead struct {
	full chan *batch
	free chan *batch
	done chan struct{} // closed: nobody takes batches any more
}

func newAhead() *ahead {
	a := &ahead{full: make(chan *batch, batchesAhead), free: make(chan *batch, batchesAhead), done: make(chan struct{})}
	for range batchesAhead {
		a.free <- new(batch)
	}
	return a
}

// run parses until the file's end or until nobody takes batches any more.
func (a *ahead) run(p *batches) {
	p.ahead = true
	for {
		var b *batch
		select {
		case b = <-a.free:
		case <-a.done:
			return
		}
		p.next(b)
		a.full <- b // has room for all there are
		if b.err != nil {
			return
		}
	}
}

// nextParsed is next for a file whose lines are parsed in batches.
func (r *reader) nextParsed() error {
	if r.atHand() {
		r.step()
		return nil
	}
	if err := r.nextBatch(); err != nil {
		return err
	}
	r.turn, r.at.Offset, r.taken = 0, r.batch.offset, 0
	r.step()
	return nil
}

// atHand reports whether the line behind the one that was taken is in the batch.
func (r *reader) atHand() bool {
	return r.batch != nil && r.batch.err == nil && r.turn+1 < r.batch.lines()
}

// step makes that line ready; with none taken, the first. What it says is not
// looked at: few ask for it, and another core may have parsed it.
func (r *reader) step() {
	if r.taken > 0 {
		r.at.Offset += int64(r.taken)
		r.turn++
	}
	r.at.Number++
	r.ready, r.taken = true, 0
}

func (r *reader) nextBatch() error {
	switch {
	case r.batch != nil && r.batch.err != nil: // again, at its end
	case r.ahead != nil:
		if r.batch != nil {
			r.ahead.free <- r.batch // has room for all there are
		}
		r.batch = <-r.ahead.full
	default:
		if r.batch == nil {
			r.batch = new(batch)
		}
		r.batches.next(r.batch)
	}
	switch err := r.batch.err; {
	case errors.Is(err, io.EOF):
		return err
	case err != nil:
		return r.failed(err)
	}
	return nil
}

// record takes the line that is ready, and gives out what it says. See
// [detector.Engine.Prepare].
func (r *reader) record(e *detector.Engine, l *detector.Log) *detector.Record {
	if r.turn%nearLines == 0 {
		e.Prepare(l, r.batch.records[r.turn:min(r.turn+nearLines, r.batch.lines())])
	}
	from, to := r.batch.bounds(r.turn)
	r.ready, r.taken = false, to-from
	return &r.batch.records[r.turn]
}

// close ends the reading.
func (r *reader) close() {
	if r.ahead != nil {
		close(r.ahead.done)
	}
	r.in.Close()
}
