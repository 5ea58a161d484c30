package source

import (
	"bufio"
	"errors"
	"io"
)

// Reader returns what reads the lines that r holds, each with a line feed,
// without what they are wrapped in and with their pieces put together, as a Files
// of the same Container would send them. Of a line of more than limit bytes
// limit+1 are kept, so that it can be told. A line that isn't wrapped comes as it
// is. Errors are r's, behind the lines before. Without a container it is r.
func (c Container) Reader(r io.Reader, limit int) io.Reader {
	if c == "" {
		return r
	}
	return &unwrapper{c: c, r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

type unwrapper struct {
	c     Container
	r     *bufio.Reader
	limit int
	open  [streams]pieces
	raw   []byte
	text  []byte
	out   []byte // what is to be given out
	given int    // of it
	err   error  // what comes behind that
}

// Read implements io.Reader.
func (u *unwrapper) Read(p []byte) (int, error) {
	for u.given == len(u.out) {
		if u.err != nil {
			return 0, u.err
		}
		u.out, u.given = u.out[:0], 0
		u.next()
	}
	n := copy(p, u.out[u.given:])
	u.given += n
	return n, nil
}

// next takes one wrapped line.
func (u *unwrapper) next() {
	u.err = u.line()
	if len(u.raw) > 0 || u.err == nil {
		var says piece
		u.text, says = u.c.piece(u.text[:0], u.raw)
		o := &u.open[says.stream]
		o.any = true
		o.text = append(o.text, u.text[:min(len(u.text), u.limit+1-len(o.text))]...)
		if !says.more {
			u.give(o)
		}
	}
	if u.err != nil { // pieces whose last is missing
		for i := range u.open {
			u.give(&u.open[i])
		}
	}
}

func (u *unwrapper) give(o *pieces) {
	if o.any {
		u.out = append(append(u.out, o.text...), '\n')
	}
	o.text, o.any = o.text[:0], false
}

// line reads a line into raw, or its beginning if it is too long for any text
// within the limit.
func (u *unwrapper) line() error {
	u.raw = u.raw[:0]
	for {
		part, err := u.r.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		u.raw = append(u.raw, part[:min(len(part), rawLimit(u.limit)-len(u.raw))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
