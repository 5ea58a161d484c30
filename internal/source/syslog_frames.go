package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// frames cuts a stream of syslog messages: RFC 6587, section 3.4. Whoever opened
// the connection either writes the length before each message (octet counting)
// or ends each with a line feed; the first message tells which, for good: a
// message can't make what is behind it be read otherwise.
type frames struct {
	r       *bufio.Reader
	max     int // bytes of a message that are kept
	buf     []byte
	decided bool
	counted bool
}

const (
	maxFrame       = 64 << 20 // no message is longer: the length must be wrong
	maxFrameDigits = 8
)

var errFrame = errors.New("neither a length nor a message")

func newFrames(r io.Reader, limit int) *frames {
	return &frames{r: bufio.NewReaderSize(r, 16<<10), max: limit}
}

// begin waits until a message begins.
func (f *frames) begin() error {
	_, err := f.r.Peek(1)
	return err
}

// next returns a message, which is valid until the next call, and whether it
// was longer than the limit. An error ends the stream; of a message without its
// end the beginning is lost, unless the stream ends well with it.
func (f *frames) next() (msg []byte, cut bool, err error) {
	if !f.decided {
		if err := f.decide(); err != nil {
			return nil, false, err
		}
		f.decided = true
	}
	if f.counted {
		n, err := f.length()
		if err != nil {
			return nil, false, err
		}
		return f.take(n)
	}
	return f.line()
}

// decide looks whether the stream begins with a length, a space and <PRI>.
func (f *frames) decide() error {
	for n := 1; n <= maxFrameDigits+2; n++ {
		p, err := f.r.Peek(n)
		if err != nil && (len(p) == 0 || err != io.EOF) {
			return err
		}
		last := p[len(p)-1]
		switch {
		case err != nil || len(p) == 1 && (last < '1' || last > '9'):
			return nil
		case '0' <= last && last <= '9':
		case last == ' ':
			if p, err = f.r.Peek(n + 1); err == nil && p[n] == '<' {
				f.counted = true
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

func (f *frames) length() (int, error) {
	for n := 1; n <= maxFrameDigits+1; n++ {
		p, err := f.r.Peek(n)
		if err != nil {
			if err == io.EOF && len(p) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		switch c := p[n-1]; {
		case '0' <= c && c <= '9':
		case n == 1 && (c == '\n' || c == '\r'):
			_, _ = f.r.Discard(1) // some end their messages as well
			n = 0
		case n > 1 && c == ' ':
			size, err := strconv.Atoi(string(p[:n-1]))
			_, _ = f.r.Discard(n) // was peeked
			if err != nil || size < 1 || size > maxFrame {
				return 0, fmt.Errorf("%w: a length of %d", errFrame, size)
			}
			return size, nil
		default:
			return 0, errFrame
		}
	}
	return 0, errFrame
}

// take reads a message of n bytes.
func (f *frames) take(n int) ([]byte, bool, error) {
	kept := min(n, f.max)
	f.buf = append(f.buf[:0], make([]byte, kept)...)
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		return nil, false, noEnd(err)
	}
	if _, err := f.r.Discard(n - kept); err != nil {
		return nil, false, noEnd(err)
	}
	return trimEnd(f.buf), kept < n, nil
}

func noEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// line reads up to a line feed.
func (f *frames) line() ([]byte, bool, error) {
	f.buf = f.buf[:0]
	cut := false
	for {
		p, err := f.r.ReadSlice('\n')
		room := f.max - len(f.buf)
		whole := err == nil
		if whole {
			p = p[:len(p)-1]
		}
		if len(p) > room {
			p, cut = p[:room], true
		}
		f.buf = append(f.buf, p...)
		switch {
		case whole || err == io.EOF && len(f.buf) > 0:
			return trimEnd(f.buf), cut, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

// trimEnd takes off what may end a message: line feed, carriage return, NUL.
func trimEnd(p []byte) []byte { return bytes.TrimRight(p, "\r\n\x00") }
