package daemon

import (
	"bytes"
	"io"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/parser"
)

// At a first start a log is read from where the longest window of its jails
// begins, so that an attack under way is seen. It is looked for from the end.
const (
	backfillStep = 1 << 20
	backfillMost = 64 << 20 // of a file; what an attacker has made longer begins there
)

// startAt says where to begin in a log's file at its first start.
func startAt(c *config.Config, l *config.Log, now func() time.Time) func(io.ReaderAt, int64) int64 {
	window := time.Duration(0)
	for i := range c.Jails {
		for _, name := range c.Jails[i].Logs {
			if name == l.Name {
				window = max(window, c.Jails[i].Window)
			}
		}
	}
	return func(f io.ReaderAt, size int64) int64 {
		format, err := l.Parser()
		if err != nil || window == 0 {
			return size
		}
		b := &backfill{format: format, container: source.Container(l.Container), since: now().Add(-window).UnixNano()}
		return b.start(f, size)
	}
}

type backfill struct {
	format    parser.Format
	container source.Container
	since     int64 // times from then on matter
	text      []byte
}

// start returns where the first line begins that matters, or size.
func (b *backfill) start(f io.ReaderAt, size int64) int64 {
	at := size // all lines from there on matter
	buf := make([]byte, backfillStep)
	for end := size; end > 0 && size-end < backfillMost; {
		begin := max(0, end-backfillStep)
		n, err := f.ReadAt(buf[:end-begin], begin)
		if err != nil && n < int(end-begin) {
			return at
		}
		first, old := b.first(buf[:n], begin > 0)
		if first >= 0 {
			at = begin + int64(first)
		}
		if old {
			return at
		}
		end = begin
	}
	return at
}

// first returns where the first line of a piece begins that matters behind all
// that don't; -1 if none does. old says that some line does not, so that none
// before the piece does. inside says that the piece may begin inside a line.
func (b *backfill) first(piece []byte, inside bool) (at int, old bool) {
	at = -1
	i := 0
	if inside {
		i = bytes.IndexByte(piece, '\n') + 1
		at = 0 // whatever the line is of which this is the rest
	}
	var ev parser.Event
	for i < len(piece) {
		n := bytes.IndexByte(piece[i:], '\n')
		if n < 0 {
			n = len(piece) - i
		}
		line := piece[i : i+n]
		if b.container != "" {
			b.text = b.container.Unwrap(b.text[:0], line)
			line = b.text
		}
		if b.format.Parse(line, false, &ev) == nil {
			switch {
			case ev.Time < b.since:
				at, old = -1, true
			case at < 0:
				at = i
			}
		}
		i += n + 1
	}
	return at, old
}
