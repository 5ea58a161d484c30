package source

import (
	"bytes"
	"io"
)

const (
	// trailMax is how much of what was read last tells a file from one that
	// was rewritten with the same beginning. A few lines with their times.
	trailMax = 512

	// searchMax is how far into a rewritten file its old end is looked for.
	searchMax = 1 << 20
)

// trail is what stood right before the offset when it was read. A head can't
// tell a file from one that was rewritten and begins with the same line.
type trail struct {
	raw     []byte
	sum     string // hash of raw, empty until asked for
	scratch []byte
}

// follow takes what was read up to the new offset.
func (t *trail) follow(data []byte) {
	t.sum = ""
	if len(data) >= trailMax {
		t.raw = append(t.raw[:0], data[len(data)-trailMax:]...)
		return
	}
	if over := len(t.raw) + len(data) - trailMax; over > 0 {
		t.raw = t.raw[:copy(t.raw, t.raw[over:])]
	}
	t.raw = append(t.raw, data...)
}

// load reads what stands before the offset.
func (t *trail) load(f io.ReaderAt, offset int64) error {
	t.sum = ""
	t.raw = append(t.raw[:0], make([]byte, min(offset, trailMax))...)
	n, err := f.ReadAt(t.raw, offset-int64(len(t.raw)))
	t.raw = t.raw[:n]
	if err != nil && err != io.EOF {
		return wrap("read what was read last", err)
	}
	return nil
}

// matches reports whether the same still stands before the offset.
func (t *trail) matches(f io.ReaderAt, offset int64) (bool, error) {
	if len(t.raw) == 0 {
		return true, nil
	}
	if t.scratch == nil {
		t.scratch = make([]byte, trailMax)
	}
	now := t.scratch[:len(t.raw)]
	n, err := f.ReadAt(now, offset-int64(len(now)))
	if err != nil && err != io.EOF {
		return false, wrap("read what was read last", err)
	}
	return bytes.Equal(now[:n], t.raw), nil
}

// hash returns the fingerprint for a Position, and over how many bytes.
func (t *trail) hash() (sum string, length int64) {
	if t.sum == "" {
		t.sum = hashHead(t.raw)
	}
	return t.sum, int64(len(t.raw))
}

// after finds where, in a file that begins with these bytes, the lines end that
// were read before it was rewritten: behind the old trail, or behind its last
// lines if the file begins with them (a log of fixed length, to which each line
// is added by writing all of it again). It returns 0 if they are not there.
// whole says that raw is all that the file held.
func after(beginning, raw []byte, whole bool) int {
	if len(raw) < convincing || raw[len(raw)-1] != '\n' {
		return 0
	}
	if i := bytes.Index(beginning, raw); i == 0 || i > 0 && beginning[i-1] == '\n' || i > 0 && !whole {
		return i + len(raw)
	}
	if !whole { // its first line is the end of one
		raw = raw[bytes.IndexByte(raw, '\n')+1:]
	}
	for len(raw) >= convincing {
		if bytes.HasPrefix(beginning, raw) {
			return len(raw)
		}
		raw = raw[bytes.IndexByte(raw, '\n')+1:]
	}
	return 0
}
