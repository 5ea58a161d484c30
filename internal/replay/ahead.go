package replay

import (
	"bytes"
	"errors"
	"io"

	"github.com/tailban/tailban/parser"
)

const (
	// batchesAhead is how many batches there are of a file: one that the engine
	// is at, one that is being parsed, and one between them.
	batchesAhead = 3

	// batchLines is how many lines a batch has at most. What is known of a line
	// takes more than most lines do, and very much more than an empty one.
	batchLines = 256

	// filesAhead is of how many files lines are parsed ahead at the same time.
	filesAhead = 4
)

// ahead parses a file's lines on a goroutine of its own, in batches, while the
// engine takes those before them: two cores are used, and since each of both
// sees all lines in order, nothing that comes out is any different.
type ahead struct {
	full chan *batch
	free chan *batch
	done chan struct{} // closed: nobody takes batches any more
}

// batch is some lines of a block that are parsed, or what came in place of them.
type batch struct {
	lines  []parsed
	data   []byte          // that they are in
	ends   [batchLines]int // where in data
	texts  []byte          // of their events, if they aren't in data
	offset int64           // of data in the file
	err    error           // there is no more, since: nothing else is set then
}

// parsed is a line, and what it says.
type parsed struct {
	line []byte // all of it
	cut  bool   // it was too long, for the format or the block
	err  error
	ev   parser.Event
}

// parseAhead begins to parse ahead.
func (r *reader) parseAhead() {
	r.ahead = newAhead()
	go r.ahead.run(r.blocks, r.format, r.limit)
}

func newAhead() *ahead {
	a := &ahead{full: make(chan *batch, batchesAhead), free: make(chan *batch, batchesAhead), done: make(chan struct{})}
	for range batchesAhead {
		a.free <- new(batch)
	}
	return a
}

// run parses until the file's end or until nobody takes batches any more.
func (a *ahead) run(in *blocks, format parser.Format, limit int) {
	keep := !parser.Stateless(format)
	var rest block // lines that are in no batch yet
	for {
		var b *batch
		select {
		case b = <-a.free:
		case <-a.done:
			return
		}
		if len(rest.data) == 0 {
			rest, b.err = in.next()
		}
		if b.err == nil {
			b.parse(b.fill(&rest), rest.cut, format, limit, keep)
		}
		a.full <- b // has room for all there are
		if b.err != nil {
			return
		}
	}
}

// fill takes lines out of a block, and returns where each ends. They are copied,
// as the block is read into again.
func (b *batch) fill(from *block) []int {
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
	b.data, b.offset = append(b.data, from.data[:size]...), from.offset
	from.data, from.offset = from.data[size:], from.offset+int64(size)
	return ends
}

// reset empties a batch. What some long lines have made large isn't kept.
func (b *batch) reset() {
	for _, buf := range []*[]byte{&b.data, &b.texts} {
		if *buf = (*buf)[:0]; cap(*buf) > 2*blockSize {
			*buf = nil
		}
	}
	if b.lines = b.lines[:0]; b.lines == nil {
		b.lines = make([]parsed, 0, batchLines)
	}
}

// parse parses the lines, each of which ends at one of ends. keep says that the
// format's events are not valid for longer than until its next line.
func (b *batch) parse(ends []int, cut bool, format parser.Format, limit int, keep bool) {
	b.lines = b.lines[:len(ends)]
	from := 0
	for i, end := range ends {
		p := &b.lines[i] // with whatever was there before
		p.line = bytes.TrimSuffix(b.data[from:end], lineFeed)
		from = end
		var line []byte
		line, p.cut = bounded(p.line, cut, limit)
		p.err = format.Parse(line, p.cut, &p.ev)
		if keep {
			b.texts = p.ev.Keep(b.texts)
		}
	}
}

var lineFeed = []byte{'\n'}

// nextParsed is next for a file whose lines are parsed ahead.
func (r *reader) nextParsed() error {
	if r.parsed != nil { // the line before
		r.at.Offset += int64(len(r.parsed.line) + 1)
		r.parsed = nil
	}
	if len(r.left) == 0 {
		if r.batch != nil && r.batch.err == nil {
			r.ahead.free <- r.batch // has room for all there are
			r.batch = nil
		}
		if r.batch == nil {
			r.batch = <-r.ahead.full
		}
		switch err := r.batch.err; {
		case errors.Is(err, io.EOF):
			return err
		case err != nil:
			return r.failed(err)
		}
		r.left, r.at.Offset = r.batch.lines, r.batch.offset
	}
	r.line, r.cut = r.left[0].line, r.left[0].cut
	r.at.Number++
	r.ready = true
	return nil
}

// close ends the reading.
func (r *reader) close() {
	if r.ahead != nil {
		close(r.ahead.done)
	}
	r.in.Close()
}
