package replay

import (
	"errors"
	"io"
	"sync"

	"github.com/tailban/tailban/detector"
)

const (
	// batchesAhead is how many batches there are of a file that is parsed ahead: one
	// that the engine is at, one that is being parsed, and some between them, so
	// that neither waits for the other at each.
	batchesAhead = 16

	// filesAhead is of how many files lines are parsed ahead at the same time.
	filesAhead = 4
)

// ahead parses on a goroutine of its own while the engine takes the batches
// before: two cores are used, and since the engine sees all lines in order,
// nothing that comes out is any different.
type ahead struct {
	full chan *batch   // in order, those that are being parsed included
	free chan *batch   // that the engine is done with
	done chan struct{} // closed: nobody takes batches any more

	mu      sync.Mutex // of batches, and of the order in full
	batches *batches
	second  *parsing // for whoever takes batches; nil: their lines depend on those before
}

func newAhead(lines *batches, second *parsing) *ahead {
	lines.ahead = true
	a := &ahead{full: make(chan *batch, batchesAhead), free: make(chan *batch, batchesAhead), done: make(chan struct{}), batches: lines, second: second}
	for range batchesAhead {
		a.free <- &batch{parsed: make(chan struct{}, 1)}
	}
	return a
}

// run parses until the file's end or until nobody takes batches any more.
func (a *ahead) run(p *parsing) {
	var spare []*batch
	for {
		b := a.next()
		if b == nil {
			return
		}
		a.mu.Lock()
		a.batches.release(b)
		if a.batches.mustWait() {
			a.mu.Unlock()
			spare = append(spare, b)
			continue
		}
		a.fill(b, p)
		for _, b := range spare {
			a.free <- b // has room for all there are
		}
		spare = spare[:0]
		a.mu.Unlock()
		last := b.err != nil
		b.finish(p)
		if last {
			return
		}
	}
}

// next waits for a batch that can be used again; nil: nobody takes any more.
func (a *ahead) next() *batch {
	select {
	case b := <-a.free:
		return b
	case <-a.done:
		return nil
	}
}

// giveBack is told that the engine is done with a batch.
func (a *ahead) giveBack(b *batch) {
	b.shrink()  // it may lie there for long
	a.free <- b // has room for all there are
}

// fill gives a batch the next lines and puts it behind those before.
func (a *ahead) fill(b *batch, p *parsing) {
	a.batches.next(b, p)
	a.full <- b // has room for all there are
}

// finish parses the lines of a batch that others wait for.
func (b *batch) finish(p *parsing) {
	p.parse(b)
	b.parsed <- struct{}{}
}

// take returns the next batch. While its lines are being parsed it does the same
// with some that come behind it, so that neither core waits for the other for long.
func (a *ahead) take() *batch {
	b := <-a.full
	for {
		select {
		case <-b.parsed:
			return b
		default:
		}
		if !a.help() {
			<-b.parsed
			return b
		}
	}
}

// help parses one batch, if there are lines that nothing has to be waited for.
func (a *ahead) help() bool {
	if a.second == nil || !a.mu.TryLock() {
		return false
	}
	var b *batch
	if a.batches.atHand() {
		select {
		case b = <-a.free:
			a.fill(b, a.second)
		default:
		}
	}
	a.mu.Unlock()
	if b != nil {
		b.finish(a.second)
	}
	return b != nil
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
			r.ahead.giveBack(r.batch)
		}
		r.batch = r.ahead.take()
	default:
		if r.batch == nil {
			r.batch = new(batch)
		}
		r.batches.next(r.batch, r.parsing)
		r.parsing.parse(r.batch)
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
	at := r.turn % nearLines
	if at == 0 {
		r.bringNear(e, l)
	}
	from, to := r.batch.bounds(r.turn)
	r.ready, r.taken = false, to-from
	return &r.near[at]
}

// bringNear makes records of the next nearLines.
func (r *reader) bringNear(e *detector.Engine, l *detector.Log) {
	b, from := r.batch, r.turn
	near := r.near[:min(nearLines, b.lines()-from)]
	for i := range near {
		id, err := &b.whose[from+i], error(nil)
		if id.Failed() {
			err = b.errs[from+i]
		}
		near[i].Set(id, &b.events[from+i], err)
	}
	e.Prepare(l, near)
}

// close ends the reading.
func (r *reader) close() {
	if r.ahead != nil {
		close(r.ahead.done)
	}
	r.in.Close()
}
