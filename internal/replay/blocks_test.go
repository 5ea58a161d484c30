package replay

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// However the input is cut into reads: the lines are those that bytes.Split
// finds, each at its offset, and those that are too long are cut to their
// beginning.
func TestBlocksEqualSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const maxLine = 20
		var in []byte
		for range rapid.IntRange(0, 30).Draw(t, "lines") {
			n := rapid.SampledFrom([]int{0, 1, 5, 19, 20, 21, 22, 60, 300}).Draw(t, "length")
			in = append(in, bytes.Repeat([]byte{byte('a' + n%26)}, n)...)
			in = append(in, '\n')
		}
		if rapid.Bool().Draw(t, "no line feed at the end") && len(in) > 0 {
			in = in[:len(in)-1]
		}
		var r io.Reader = bytes.NewReader(in)
		switch rapid.IntRange(0, 3).Draw(t, "reader") {
		case 0:
			r = iotest.OneByteReader(r)
		case 1:
			r = iotest.HalfReader(r)
		case 2:
			r = iotest.DataErrReader(r)
		}
		b := newBlocks(r, maxLine)
		b.buf = make([]byte, 64) // many refills
		at := 0
		for {
			blk, err := b.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if int(blk.offset) != at {
				t.Fatalf("block at %d, want %d", blk.offset, at)
			}
			want := in[at:]
			if blk.cut {
				line, _, ended := bytes.Cut(want, []byte("\n"))
				if len(line) <= maxLine || !bytes.Equal(blk.data, line[:maxLine]) {
					t.Fatalf("cut to %q: %q", blk.data, line)
				}
				at += len(line)
				if ended {
					at++
				}
				continue
			}
			if !bytes.HasPrefix(want, blk.data) {
				t.Fatalf("got %q, want %q", blk.data, want)
			}
			at += len(blk.data)
			if at < len(in) && in[at-1] != '\n' {
				t.Fatalf("a block ends inside a line at %d", at)
			}
			for line := range bytes.SplitSeq(bytes.TrimSuffix(blk.data, []byte("\n")), []byte("\n")) {
				if len(line) > 64 {
					t.Fatalf("a line of %d bytes was not cut", len(line))
				}
			}
		}
		if at != len(in) {
			t.Fatalf("%d of %d bytes read", at, len(in))
		}
	})
}

// An error behind some lines is told after them.
func TestBlocksError(t *testing.T) {
	broken := errors.New("broken")
	r := io.MultiReader(strings.NewReader("one\ntwo\nthr"), iotest.ErrReader(broken))
	b := newBlocks(r, 100)
	blk, err := b.next()
	if err != nil || string(blk.data) != "one\ntwo\n" {
		t.Fatalf("got %q, %v", blk.data, err)
	}
	if _, err := b.next(); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

// A megabyte without a line feed takes no more memory than a line may.
func TestBlocksLongLine(t *testing.T) {
	in := strings.Repeat("x", 64<<20) + "\nnext\n"
	b := newBlocks(strings.NewReader(in), 1000)
	blk, err := b.next()
	if err != nil || !blk.cut || len(blk.data) != 1000 {
		t.Fatalf("got %d bytes, cut %v, %v", len(blk.data), blk.cut, err)
	}
	blk, err = b.next()
	if err != nil || blk.cut || string(blk.data) != "next\n" || blk.offset != 64<<20+1 {
		t.Fatalf("got %q at %d, %v", blk.data, blk.offset, err)
	}
	if len(b.buf) > bufferSize {
		t.Errorf("the buffer has grown to %d", len(b.buf))
	}
}

// sizes notes how much is read at a time at most.
type sizes struct {
	in   io.Reader
	most int
}

func (s *sizes) Read(b []byte) (int, error) {
	s.most = max(s.most, len(b))
	return s.in.Read(b)
}

// Blocks of short lines are as small where a line may be long.
func TestBlocksOfShortLines(t *testing.T) {
	r := &sizes{in: strings.NewReader(strings.Repeat("a short line\n", 1<<20))}
	b := newBlocks(r, 16<<20)
	most := 0
	for {
		blk, err := b.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(blk.data))
	}
	if r.most > blockSize || most > blockSize+20 {
		t.Errorf("up to %d bytes read at a time, blocks of up to %d", r.most, most)
	}
}
