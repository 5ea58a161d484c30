package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/parser"
)

// stdin is how standard input is named among the files.
const stdin = "-"

const (
	// sampleLines is how many lines the format is guessed from, and sampleBytes
	// how much is read for them.
	sampleLines = 1000
	sampleBytes = 1 << 20
)

// open opens a file, or standard input, for reading. Compressed input is
// known by its first bytes, whatever its name.
func open(name string, in io.Reader) (io.ReadCloser, error) {
	if name != stdin {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		if st, err := f.Stat(); err == nil && st.IsDir() {
			f.Close()
			return nil, fmt.Errorf("read %s: it is a folder: name the log files in it", name)
		}
		in = f
	}
	r := bufio.NewReaderSize(in, 64<<10)
	magic, err := r.Peek(10)
	if err != nil && !errors.Is(err, io.EOF) {
		closeInput(in, name)
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	out := &input{Reader: r, close: func() error { return closeInput(in, name) }}
	if other := otherCompression(magic); other != "" {
		closeInput(in, name)
		return nil, fmt.Errorf("read %s: it is compressed with %s: unpack it first, only gzip is read as it is", name, other)
	}
	if bytes.HasPrefix(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r)
		if err != nil {
			closeInput(in, name)
			return nil, fmt.Errorf("decompress %s: %w", name, err)
		}
		out.Reader = z
	}
	return out, nil
}

type input struct {
	io.Reader
	close func() error
}

func (i *input) Close() error { return i.close() }

func closeInput(in io.Reader, name string) error {
	if c, ok := in.(io.Closer); ok && name != stdin {
		return c.Close()
	}
	return nil
}

// otherCompression names what input is compressed with, if it isn't gzip, by
// its first bytes (the formats' own descriptions).
func otherCompression(head []byte) string {
	for _, x := range []struct{ magic, name string }{
		{"\xfd7zXZ\x00", "xz"},
		{"\x28\xb5\x2f\xfd", "zstd"},
		{"BZh91AY&SY", "bzip2"},
	} {
		if bytes.HasPrefix(head, []byte(x.magic)) {
			return x.name
		}
	}
	return ""
}

// Sample reads the first lines of a file of a log, compressed or not, for
// guessing its format. There may be none.
func Sample(name string, l *config.Log) ([][]byte, error) {
	r, err := open(name, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	head, err := io.ReadAll(io.LimitReader(unwrapped(r, l), sampleBytes))
	if err != nil && len(head) == 0 { // or else it is met, and told, when all is read
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return firstLines(head), nil
}

// unwrapped reads the lines of a container without what they are wrapped in.
func unwrapped(r io.Reader, l *config.Log) io.Reader {
	return source.Container(l.Container).Reader(r, positive(l.MaxLine))
}

// positive is the limit of a log's lines, which the built-in logs don't say.
func positive(limit int) int {
	if limit > 0 {
		return limit
	}
	return config.DefaultMaxLine
}

// WrappedAs tells which container's runtime has wrapped lines that are read as
// they are, if one has, and the format of what is inside.
func WrappedAs(lines [][]byte) (container, format string) {
	for _, c := range []source.Container{source.Docker, source.CRI} {
		inside := make([][]byte, len(lines))
		for i, l := range lines {
			inside[i] = c.Unwrap(nil, l)
		}
		if format, n := parser.Detect(inside); 2*n > len(lines) {
			return string(c), format
		}
	}
	return "", ""
}

func firstLines(head []byte) [][]byte {
	lines := bytes.SplitN(head, []byte("\n"), sampleLines+1)
	if last := len(lines) - 1; last > 0 || len(lines[last]) == 0 {
		lines = lines[:last] // the last is cut, or what follows the last line feed
	}
	return lines
}

// dated is a file and the time of its first line, 0 if none has one.
type dated struct {
	name  string
	first int64
}

// inOrder sorts files by the time of their first line: a rotated set named by
// a shell pattern comes newest first. Files that hold no line with a time
// come first.
func inOrder(files []string, log *config.Log) ([]dated, error) {
	f, err := log.Parser()
	if err != nil {
		return nil, err
	}
	all := make([]dated, len(files))
	for i, name := range files {
		lines, err := Sample(name, log)
		if err != nil {
			return nil, err
		}
		all[i].name = name
		var ev parser.Event
		for _, l := range lines {
			if f.Parse(l, false, &ev) == nil {
				all[i].first = ev.Time
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b dated) int { return cmp.Compare(a.first, b.first) })
	return all, nil
}

// interruptible is a reader that can be given up while it waits, as standard
// input on a terminal does.
type interruptible struct {
	ctx   context.Context
	parts chan part
	rest  part
}

type part struct {
	data []byte
	err  error
}

func newInterruptible(ctx context.Context, in io.Reader) *interruptible {
	i := &interruptible{ctx: ctx, parts: make(chan part)}
	go i.read(in)
	return i
}

// read ends with the input or, if that never ends, with the process.
func (i *interruptible) read(in io.Reader) {
	var bufs [2][]byte // one is being copied from while the other is read into
	for turn := 0; ; turn ^= 1 {
		if bufs[turn] == nil {
			bufs[turn] = make([]byte, 256<<10)
		}
		buf := bufs[turn]
		n, err := in.Read(buf)
		select {
		case i.parts <- part{buf[:n], err}:
		case <-i.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (i *interruptible) Read(p []byte) (int, error) {
	for len(i.rest.data) == 0 {
		if i.rest.err != nil {
			return 0, i.rest.err
		}
		select {
		case i.rest = <-i.parts:
		case <-i.ctx.Done():
			return 0, i.ctx.Err()
		}
	}
	n := copy(p, i.rest.data)
	i.rest.data = i.rest.data[n:]
	return n, nil
}
