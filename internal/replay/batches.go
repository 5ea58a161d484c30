package replay

import (
	"bytes"

	"golang.org/x/sys/cpu"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

const (
	// batchLines is how many lines a batch has at most. What is known of a line
	// takes more than most lines do, and very much more than an empty one.
	batchLines = 256

	// nearLines is of how many lines at a time what is in memory is brought near: it
	// stays in a processor's own cache until their turn.
	nearLines = 64

	// keptBuffer is up to what size buffers are used again.
	keptBuffer = 4 * bufferSize
)

// batch is some lines of a block that are parsed, or what came in place of them. It
// shares no cache line with another, which is used by another core.
type batch struct {
	_      cpu.CacheLinePad
	known                 // of each line
	events []parser.Event // of the records: apart, as few are looked at and each is large
	data   []byte         // that the lines are in
	buffer *buffer        // that data is in, if others are read into meanwhile
	texts  []byte         // of the events, if they aren't in data
	offset int64          // of data in the file
	err    error          // there is no more, since: nothing else is set then
	_      cpu.CacheLinePad
}

// known is what is asked of every line.
type known struct {
	records []detector.Record
	ends    []int32 // of the lines, in data
}

// buffer is what a block has been read into. It is read into again when all batches
// of the block have come back.
type buffer struct {
	data  []byte
	users int // batches
}

// batches parses a file's lines, in batches.
type batches struct {
	_      cpu.CacheLinePad
	in     *blocks
	format parser.Format
	engine *detector.Engine
	limit  int   // bytes of a line
	keep   bool  // the format's events are not valid for longer than until its next line
	rest   block // lines that are in no batch yet
	known        // of the batch at hand

	// Of batches that are used while others are parsed:
	ahead  bool
	buffer *buffer // that is read into
	spare  []*buffer
	_      cpu.CacheLinePad
}

func newBatches(in *blocks, format parser.Format, engine *detector.Engine, limit int) *batches {
	return &batches{in: in, format: format, engine: engine, limit: limit, keep: !parser.Stateless(format), buffer: new(buffer), known: newKnown()}
}

// next fills a batch, which may have been used before.
func (p *batches) next(b *batch) {
	p.release(b)
	if len(p.rest.data) == 0 {
		p.turnOver()
		p.rest, b.err = p.in.next()
	}
	if b.err == nil {
		p.fill(b)
		p.parse(b)
		p.hand(b)
	}
}

// turnOver has another buffer read into, if batches are in the one at hand or a long
// line has made it large. One batch alone is done with it.
func (p *batches) turnOver() {
	if !p.ahead || p.buffer.users == 0 && len(p.in.buf) <= keptBuffer {
		return
	}
	other := &buffer{}
	if last := len(p.spare) - 1; last >= 0 {
		other, p.spare = p.spare[last], p.spare[:last]
	} else {
		other.data = make([]byte, bufferSize)
	}
	p.buffer.data = p.in.swap(other.data)
	p.buffer = other
}

// release takes a batch out of its buffer. What long lines have made large is not
// kept.
func (p *batches) release(b *batch) {
	from := b.buffer
	if from == nil {
		return
	}
	b.buffer = nil
	from.users--
	now := from.data
	if from == p.buffer {
		now = p.in.buf
	}
	if len(now) > keptBuffer {
		clear(b.events)
	} else if from.users == 0 && from != p.buffer {
		p.spare = append(p.spare, from)
	}
}

// fill takes lines out of a block.
func (p *batches) fill(b *batch) {
	b.reset()
	from := &p.rest
	p.ends = p.ends[:0]
	size := 0
	for rest := from.data; len(rest) > 0 && len(p.ends) < batchLines && size < blockSize; rest = from.data[size:] {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		size += n
		p.ends = append(p.ends, int32(size)) // a block is far smaller than that
	}
	b.data, b.offset = from.data[:size], from.offset
	from.data, from.offset = from.data[size:], from.offset+int64(size)
}

// parse parses the lines, and finds out whom they are of.
func (p *batches) parse(b *batch) {
	from := int32(0)
	for i, end := range p.ends {
		r := &p.records[i]
		r.Event = &b.events[i]
		var line []byte
		line, r.Cut = bounded(whole(b.data[from:end]), p.rest.cut, p.limit)
		from = end
		r.Err = p.format.Parse(line, r.Cut, r.Event)
		if p.keep {
			b.texts = r.Event.Keep(b.texts)
		}
		p.engine.Identify(r)
	}
}

// hand gives a batch what is known of its lines. It is written all at once, as
// another core has read what was there before: to take one piece of it after the
// other from there, between other work, takes many times as long.
func (p *batches) hand(b *batch) {
	if !p.ahead {
		b.known = p.known
		return
	}
	if b.ends == nil {
		b.known = newKnown()
	}
	b.ends = append(b.ends[:0], p.ends...)
	copy(b.records, p.records[:len(p.ends)])
	b.buffer = p.buffer
	b.buffer.users++
}

func newKnown() known {
	return known{make([]detector.Record, batchLines), make([]int32, 0, batchLines)}
}

// reset empties a batch. What some long lines have made large isn't kept.
func (b *batch) reset() {
	if b.events == nil {
		b.events = make([]parser.Event, batchLines)
	}
	if b.texts = b.texts[:0]; cap(b.texts) > 2*blockSize {
		b.texts = nil
		clear(b.events)
	}
}

// lines is how many there are.
func (b *batch) lines() int { return len(b.ends) }

// line returns all of a line.
func (b *batch) line(i int) []byte {
	from, to := b.bounds(i)
	return whole(b.data[from:to])
}

// bounds are those of a line in the data.
func (b *batch) bounds(i int) (from, to int) {
	if i > 0 {
		from = int(b.ends[i-1])
	}
	return from, int(b.ends[i])
}

// whole takes the line feed off a line, which only the last of a stream can lack.
func whole(line []byte) []byte {
	if last := len(line) - 1; line[last] == '\n' {
		return line[:last]
	}
	return line
}
