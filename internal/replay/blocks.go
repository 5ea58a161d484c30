package replay

import (
	"bytes"
	"errors"
	"io"
)

// blockSize is how much is read at a time: more than that does not stay in a
// processor's own cache until it is parsed.
const blockSize = 1 << 18

// bufferSize is enough for a block and the beginning of a line behind it, which is
// short mostly.
const bufferSize = blockSize + blockSize/8

// blocks cuts a stream into blocks of whole lines, in memory that does not
// depend on the stream.
type blocks struct {
	r       io.Reader
	maxLine int
	buf     []byte
	n       int  // bytes of buf filled
	kept    int  // where in buf the part not yet given out begins
	seen    int  // where in buf the part begins that may have line feeds
	long    bool // of the line at kept the beginning was given out
	offset  int64
	eof     bool
	err     error // met behind what has been read; told once that is given out
}

// block is a run of whole lines; only the stream's last may lack its line
// feed. If cut, it is the beginning of one single longer line instead.
type block struct {
	data   []byte
	offset int64 // of data in the stream
	cut    bool
}

func newBlocks(r io.Reader, maxLine int) *blocks {
	return &blocks{r: r, maxLine: maxLine, buf: make([]byte, bufferSize)}
}

// swap has what comes read into another buffer, and returns the one before, which
// the blocks that were given out so far are in.
func (b *blocks) swap(buf []byte) (before []byte) {
	rest := b.buf[b.kept:b.n]
	if len(rest) > len(buf) {
		buf = make([]byte, len(b.buf))
	}
	before, b.buf = b.buf, buf
	b.n = copy(b.buf, rest)
	b.seen -= b.kept
	b.kept = 0
	return before
}

// next returns the next block, valid until the call after, or io.EOF.
func (b *blocks) next() (block, error) {
	b.skip()
	for {
		rest := b.buf[b.kept:b.n]
		i := bytes.LastIndexByte(b.buf[b.seen:b.n], '\n')
		size := b.seen - b.kept + i + 1
		b.seen = b.n
		switch {
		case i >= 0:
			return b.take(size, false), nil
		case b.err != nil:
			return block{}, b.err
		case b.eof && len(rest) == 0:
			return block{}, io.EOF
		case b.eof && len(rest) <= b.maxLine:
			return b.take(len(rest), false), nil
		case len(rest) > b.maxLine:
			b.long = true
			return b.take(b.maxLine, true), nil
		}
		b.fill()
	}
}

func (b *blocks) take(n int, cut bool) block {
	out := block{data: b.buf[b.kept : b.kept+n], offset: b.offset, cut: cut}
	b.kept += n
	b.offset += int64(n)
	return out
}

// skip skips what is left of a line that is too long.
func (b *blocks) skip() {
	for b.long {
		rest := b.buf[b.kept:b.n]
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			b.take(i+1, true)
			b.long = false
		} else {
			b.take(len(rest), true)
		}
		b.seen = b.kept
		if b.long {
			if b.eof || b.err != nil {
				return
			}
			b.fill()
		}
	}
}

// fill moves what is kept to the front and reads behind it, never more than
// blockSize: a log whose lines may be long has short ones mostly.
func (b *blocks) fill() {
	if b.kept > 0 {
		b.n = copy(b.buf, b.buf[b.kept:b.n])
		b.seen -= b.kept
		b.kept = 0
	}
	if b.n == len(b.buf) { // a line that is longer than that
		buf := make([]byte, min(2*len(b.buf), blockSize+b.maxLine))
		copy(buf, b.buf)
		b.buf = buf
	}
	n, err := b.r.Read(b.buf[b.n:min(b.n+blockSize, len(b.buf))])
	b.n += n
	switch {
	case errors.Is(err, io.EOF):
		b.eof = true
	case err != nil:
		b.err = err
	}
}
