package replay

import (
	"bytes"
	"errors"
	"io"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

const (
	// batchesAhead is how many batches there are of a file that is parsed ahead: one
	// that the engine is at, one that is being parsed, and some between them, so
	// that neither waits for the other at each.
	batchesAhead = 8

	// batchLines is how many lines a batch has at most. What is known of a line
	// takes more than most lines do, and very much more than an empty one.
	batchLines = 256

	// nearLines is of how many lines at a time what is in memory is brought near: it
	// stays in a processor's own cache until their turn.
	nearLines = 64

	// filesAhead is of how many files lines are parsed ahead at the same time.
	filesAhead = 4
)

// batch is some lines of a block that are parsed, or what came in place of them.
type batch struct {
	lines   [][]byte          // all of each
	records []detector.Record // what they say; with whatever was there before behind them
	data    []byte            // that they are in
	copied  []byte            // data, if the block is read into again meanwhile
	ends    [batchLines]int   // where in data
	texts   []byte            // of their events, if they aren't in data
	offset  int64             // of data in the file
	err     error             // there is no more, since: nothing else is set then
}

// batches parses a file's lines, in batches.
type batches struct {
	in     *blocks
	format parser.Format
	limit  int   // bytes of a line
	keep   bool  // the format's events are not valid for longer than until its next line
	copy   bool  // batches are used while others are parsed
	rest   block // lines that are in no batch yet
}

func newBatches(in *blocks, format parser.Format, limit int) *batches {
	return &batches{in: in, format: format, limit: limit, keep: !parser.Stateless(format)}
}

// next fills a batch.
func (p *batches) next(b *batch) {
	if len(p.rest.data) == 0 {
		p.rest, b.err = p.in.next()
	}
	if b.err == nil {
		b.parse(p, b.fill(&p.rest, p.copy), p.rest.cut)
	}
}

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
	p.copy = true
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

// fill takes lines out of a block, and returns where each ends.
func (b *batch) fill(from *block, copied bool) []int {
	b.reset()
	ends, size := b.ends[:0], 0
	for rest := from.data; len(rest) > 0 && len(ends) < batchLines && size < blockSize; rest = from.data[size:] {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		size += n
		ends = append(ends, size)
	}
	b.data, b.offset = from.data[:size], from.offset
	if copied {
		b.copied = append(b.copied, b.data...)
		b.data = b.copied
	}
	from.data, from.offset = from.data[size:], from.offset+int64(size)
	return ends
}

// reset empties a batch. What some long lines have made large isn't kept, not by
// what is left of lines before either.
func (b *batch) reset() {
	for _, buf := range []*[]byte{&b.copied, &b.texts} {
		if *buf = (*buf)[:0]; cap(*buf) > 2*blockSize {
			*buf = nil
			clear(b.records)
			clear(b.lines[:cap(b.lines)])
		}
	}
	if b.lines = b.lines[:0]; b.lines == nil {
		b.lines = make([][]byte, 0, batchLines)
		b.records = make([]detector.Record, batchLines)
	}
}

// parse parses the lines, each of which ends at one of ends.
func (b *batch) parse(p *batches, ends []int, cut bool) {
	from := 0
	for i, end := range ends {
		all := b.data[from:end]
		if all[len(all)-1] == '\n' { // none is empty, and only the last can lack it
			all = all[:len(all)-1]
		}
		from = end
		b.lines = append(b.lines, all)
		r := &b.records[i]
		var line []byte
		line, r.Cut = bounded(all, cut, p.limit)
		r.Err = p.format.Parse(line, r.Cut, &r.Event)
		if p.keep {
			b.texts = r.Event.Keep(b.texts)
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
	return r.batch != nil && r.batch.err == nil && r.turn+1 < len(r.batch.lines)
}

// step makes that line ready; with none taken, the first.
func (r *reader) step() {
	if r.taken > 0 {
		r.at.Offset += int64(r.taken)
		r.turn++
	}
	r.line, r.cut = r.batch.lines[r.turn], r.batch.records[r.turn].Cut
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

// record gives out what the line that was taken says. See [detector.Engine.Prepare].
func (r *reader) record(e *detector.Engine, l *detector.Log) *detector.Record {
	if r.turn%nearLines == 0 {
		e.Prepare(l, r.batch.records[r.turn:min(r.turn+nearLines, len(r.batch.lines))])
	}
	return &r.batch.records[r.turn]
}

// close ends the reading.
func (r *reader) close() {
	if r.ahead != nil {
		close(r.ahead.done)
	}
	r.in.Close()
}
