package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// headMax is how much of a file's beginning tells it from a later one under
// the same inode. A few log lines with their times are enough.
const headMax = 1024

// head is what a file began with when it was read. The bytes and not only
// their hash are kept, so that looking again costs a read and a comparison.
type head struct {
	raw     []byte
	sum     string // hash of raw, empty until asked for
	scratch []byte
}

// extend reads on until the first upTo bytes are held, or headMax of them.
func (h *head) extend(f io.ReaderAt, upTo int64) error {
	have, want := len(h.raw), int(min(upTo, headMax))
	if have >= want {
		return nil
	}
	h.raw = append(h.raw, make([]byte, want-have)...)
	n, err := f.ReadAt(h.raw[have:], int64(have))
	h.raw, h.sum = h.raw[:have+n], ""
	if err != nil && err != io.EOF {
		return fmt.Errorf("read beginning: %w", err)
	}
	return nil
}

// follow takes what was read at the offset from, if that is where the head ends.
// The file itself may be another one by now.
func (h *head) follow(from int64, data []byte) {
	if int64(len(h.raw)) != from || from >= headMax {
		return
	}
	h.raw, h.sum = append(h.raw, data[:min(len(data), headMax-len(h.raw))]...), ""
}

// matches reports whether the file still begins as it did.
func (h *head) matches(f io.ReaderAt) (bool, error) {
	if len(h.raw) == 0 {
		return true, nil
	}
	if h.scratch == nil {
		h.scratch = make([]byte, headMax)
	}
	now := h.scratch[:len(h.raw)]
	n, err := f.ReadAt(now, 0)
	if err != nil && err != io.EOF {
		return false, fmt.Errorf("read beginning: %w", err)
	}
	return bytes.Equal(now[:n], h.raw), nil
}

// hash returns the fingerprint for a Position, and over how many bytes.
func (h *head) hash() (sum string, length int64) {
	if h.sum == "" {
		h.sum = hashHead(h.raw)
	}
	return h.sum, int64(len(h.raw))
}

// clone returns the bytes themselves, those of last if they are still the same.
func (h *head) clone(last *seen) []byte {
	if last != nil && bytes.Equal(last.head, h.raw) {
		return last.head
	}
	return bytes.Clone(h.raw)
}

func (h *head) reset() { h.raw, h.sum = h.raw[:0], "" }

// hashHead is SHA-256 cut to 128 bits, in hex: two files that differ are told
// apart even if a client could choose what is logged.
func hashHead(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// headAgrees reports whether the file f of the given size can be the one the
// position was taken from: it begins as that did, and has the same bytes right
// before the offset.
func headAgrees(f io.ReaderAt, size int64, p Position) (bool, error) {
	if p.Offset < 0 || size < p.Offset || size < p.HeadLen || p.TailLen > p.Offset {
		return false, nil
	}
	ok, err := hashAgrees(f, 0, p.HeadLen, p.Head)
	if err != nil || !ok {
		return false, wrap("read beginning", err)
	}
	ok, err = hashAgrees(f, p.Offset-p.TailLen, p.TailLen, p.Tail)
	return ok, wrap("read what was read last", err)
}

// hashAgrees reports whether the length bytes at off have that hash.
func hashAgrees(f io.ReaderAt, off, length int64, sum string) (bool, error) {
	switch {
	case length == 0:
		return true, nil
	case length < 0 || length > headMax:
		return false, nil // not written by us
	}
	b := make([]byte, length)
	n, err := f.ReadAt(b, off)
	if err != nil && err != io.EOF {
		return false, err
	}
	return hashHead(b[:n]) == sum, nil
}
