package replay

import (
	"bytes"
	"errors"
	"io"

	"github.com/tailban/tailban/parser"
)

// batchesAhead is how many batches there are of a file: one that the engine is
// at, one that is being parsed, and one between them.
const batchesAhead = 3

// ahead parses a file's lines on a goroutine of its own, in batches, while the
// engine takes those before them: two cores are used, and since each of both
// sees all lines in order, nothing that comes out is any different.
type ahead struct {
	full chan *batch
	free chan *batch
	done chan struct{} // closed: nobody takes batches any more
}

// batch is a block of lines that are parsed, or what came in place of one.
type batch struct {
	lines  []parsed
	data   []byte // that they are in
	texts  []byte // of their events, if they aren't in data
	offset int64  // of data in the file
	err    error  // there is no more, since: nothing else is set then
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
	a := &ahead{full: make(chan *batch, batchesAhead), free: make(chan *batch, batchesAhead), done: make(chan struct{})}
	for range batchesAhead {
		a.free <- new(batch)
	}
	r.ahead = a
	go a.run(r.blocks, r.format, r.limit)
}

// run parses until the file's end or until nobody takes batches any more.
func (a *ahead) run(in *blocks, format parser.Format, limit int) {
	keep := !parser.Stateless(format)
	for {
		var b *batch
		select {
		case b = <-a.free:
		case <-a.done:
			return
		}
		b.fill(in, format, limit, keep)
		a.full <- b // has room for all there are
		if b.err != nil {
			return
		}
	}
}

// fill reads and parses a block. keep says that the format's events are not
// valid for longer than until its next line.
func (b *batch) fill(in *blocks, format parser.Format, limit int, keep bool) {
	b.lines, b.texts = b.lines[:0], b.texts[:0]
	x, err := in.next()
	if err != nil {
		b.err = err
		return
	}
	b.data, b.offset = append(b.data[:0], x.data...), x.offset
	for rest := b.data; len(rest) > 0; {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		p := b.add()
		p.line = line
		line, p.cut = bounded(line, x.cut, limit)
		p.err = format.Parse(line, p.cut, &p.ev)
		if keep {
			b.texts = p.ev.Keep(b.texts)
		}
	}
}

// add makes room for one more line, with whatever was there before.
func (b *batch) add() *parsed {
	if n := len(b.lines); n < cap(b.lines) {
		b.lines = b.lines[:n+1]
	} else {
		b.lines = append(b.lines, parsed{})
	}
	return &b.lines[len(b.lines)-1]
}

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
