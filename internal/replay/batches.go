package replay

import (
	"bytes"

	"golang.org/x/sys/cpu"

	"github.com/tailban/tailban/parser"
)

const (
	// batchLines is how many lines a batch has at most. What is known of a line
	// takes more than most lines do, and very much more than an empty one.
	batchLines = 512

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
	events []parser.Event // of each line: apart, as few are looked at and each is large
	errs   []error        // of those that did not parse
	data   []byte         // that the lines are in
	buffer *buffer        // that data is in, if others are read into meanwhile
	texts  []byte         // of the events, if they aren't in data
	offset int64          // of data in the file
	cut    bool           // data is the beginning of a longer line
	parsed chan struct{}  // holds one once the lines are parsed, if others are taken meanwhile
	err    error          // there is no more, since: nothing else is set then
	_      cpu.CacheLinePad
}

// buffer is what a block has been read into. It is read into again when all batches
// of the block have come back.
type buffer struct {
	data  []byte
	users int // batches
}

// batches cuts a file into batches of lines. It is for one goroutine at a time.
type batches struct {
	_    cpu.CacheLinePad
	in   *blocks
	rest block // lines that are in no batch yet

	// Of batches that are used while others are parsed:
	ahead  bool
	buffer *buffer // that is read into
	spare  []*buffer
	_      cpu.CacheLinePad
}

func newBatches(in *blocks) *batches { return &batches{in: in, buffer: new(buffer)} }

// next puts lines into a batch, which may have been used before. They are to be
// parsed by p.
func (s *batches) next(b *batch, p *parsing) {
	s.release(b)
	if len(s.rest.data) == 0 {
		s.turnOver()
		s.rest, b.err = s.in.next()
	}
	if b.err == nil {
		s.fill(b, p)
	}
}

// atHand reports whether there are lines without reading any.
func (s *batches) atHand() bool { return len(s.rest.data) > 0 }

// mustWait reports whether memory that a long line has made large is in use: there is
// no more of that at a time, however many batches there are.
func (s *batches) mustWait() bool {
	return !s.atHand() && s.buffer.users > 0 && len(s.in.buf) > keptBuffer
}

// turnOver has another buffer read into, if batches are in the one at hand or a long
// line has made it large. One batch alone is done with it.
func (s *batches) turnOver() {
	if !s.ahead || s.buffer.users == 0 && len(s.in.buf) <= keptBuffer {
		return
	}
	other := &buffer{}
	if last := len(s.spare) - 1; last >= 0 {
		other, s.spare = s.spare[last], s.spare[:last]
	} else {
		other.data = make([]byte, bufferSize)
	}
	s.buffer.data = s.in.swap(other.data)
	s.buffer = other
}

// release takes a batch out of its buffer. What long lines have made large is not
// kept.
func (s *batches) release(b *batch) {
	from := b.buffer
	if from == nil {
		return
	}
	b.buffer = nil
	from.users--
	now := from.data
	if from == s.buffer {
		now = s.in.buf
	}
	if len(now) > keptBuffer {
		clear(b.events)
	} else if from.users == 0 && from != s.buffer {
		s.spare = append(s.spare, from)
	}
}

// fill takes lines out of a block.
func (s *batches) fill(b *batch, p *parsing) {
	b.reset()
	from := &s.rest
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
	b.data, b.offset, b.cut = from.data[:size], from.offset, from.cut
	from.data, from.offset = from.data[size:], from.offset+int64(size)
	if s.ahead {
		b.buffer = s.buffer
		b.buffer.users++
	}
}

// reset empties a batch.
func (b *batch) reset() {
	if b.events == nil {
		b.events, b.errs = make([]parser.Event, batchLines), make([]error, batchLines)
	}
	b.shrink()
	b.texts = b.texts[:0]
}

// shrink lets go of what long lines have made large.
func (b *batch) shrink() {
	if cap(b.texts) > 2*blockSize {
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
