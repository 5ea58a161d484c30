package source

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// A writer that doesn't append goes on where it was after its file has been
// truncated, and leaves a hole before its next line, which reads as zero bytes.
// No line begins with one, so they are skipped where a line would begin.

// skipZeros goes on behind the zero bytes that chunk, which stands at the
// offset, begins with.
func (r *reader) skipZeros(chunk []byte) {
	n := int64(len(chunk) - len(bytes.TrimLeft(chunk, "\x00")))
	next := r.offset + n
	if n == int64(len(chunk)) {
		next = r.data(next)
	}
	r.zeros += next - r.offset
	r.pass(make([]byte, min(next-r.offset, headMax)))
	r.offset = next
}

// data is where the first byte at or behind off is that isn't in a hole, or the
// end of the file. A file system that doesn't know says off.
func (r *reader) data(off int64) int64 {
	next, err := unix.Seek(int(r.f.Fd()), off, unix.SEEK_DATA)
	if err == unix.ENXIO {
		return max(r.size, off)
	}
	if err != nil {
		return off
	}
	return min(max(next, off), max(r.size, off))
}

// beforeZeros is p up to the first line feed that a zero byte follows.
func beforeZeros(p []byte) []byte {
	i := bytes.IndexByte(p, 0)
	if i < 1 {
		return p
	}
	if j := bytes.Index(p[i-1:], []byte("\n\x00")); j >= 0 {
		return p[:i+j]
	}
	return p
}
