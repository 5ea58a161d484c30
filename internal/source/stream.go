package source

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailban/tailban/internal/sleep"
)

// Ended is the State of what will never send another line: standard input that
// was read to its end.
const Ended State = "ended"

// States are all that there are.
func States() []State {
	return []State{Following, Renamed, Deleted, Waiting, Failing, Refused, Ended}
}

// StreamStats is a snapshot of a source that is no file. Counters begin with
// the source; those that it can't have stay 0.
type StreamStats struct {
	Name  string // as File.Path, for instance "journal:nginx.service"
	State State
	Err   string // the trouble at hand, with a hint; empty: none

	Lines    int64     // sent
	Bytes    int64     // of these
	LastLine time.Time // when the last one was sent; zero: none was
	Cut      int64     // lines longer than the limit, among those sent
	Queued   int64     // bytes taken from a socket and not sent yet

	Malformed     int64 // records that were none: no JSON, no frame
	Refused       int64 // from users or addresses that may not send
	Dropped       int64 // lines thrown away as their receiver was behind
	KernelDropped int64 // datagrams that the kernel threw away for want of room
	Gaps          int64 // times lines may have been lost otherwise

	Restarts    int64 // of the child, beyond the first start
	Connections int   // open now
}

// stream is what sources that are no files have in common.
type stream struct {
	file    *File
	log     *slog.Logger
	maxLine int
	pool    pool
	offset  int64 // of the next line; owned by whoever sends
	again   bool  // it was counted before; likewise

	lines, bytes, last, cut                           atomic.Int64
	malformed, refused, dropped, lost, gaps, restarts atomic.Int64

	once  sync.Once
	mu    sync.Mutex
	state State
	err   string
	said  string // the trouble last said
}

func newStream(log, path string, maxLine int, logger *slog.Logger) *stream {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &stream{
		file: &File{Log: log, Path: path}, maxLine: positive(maxLine, defaultMaxLine),
		log: logger.With(slog.String("log", log), slog.String("source", path)), state: Waiting,
	}
}

// resume finds the position that was stored for the log when it was read from
// no file, and takes up its offset. A batch goes out for each position of a
// file that the log was read from before, so that it is forgotten. It returns
// false if ctx is done.
func (s *stream) resume(ctx context.Context, out chan<- *Batch, stored []Position) (p Position, found, ok bool) {
	for _, q := range stored {
		switch {
		case q.Log != s.file.Log:
		case q.identity() == identity{}:
			p, found = q, true
			s.offset = q.Offset
		default:
			s.hand(ctx, out, &Batch{
				File:   &File{Log: q.Log, Path: q.Path, Dev: q.Dev, Ino: q.Ino},
				Offset: q.Offset, Next: q.Offset, Position: q, Final: true,
			})
		}
	}
	return p, found, ctx.Err() == nil
}

// announce says where reading begins. It returns false if ctx is done.
func (s *stream) announce(ctx context.Context, out chan<- *Batch, cursor string) bool {
	return s.hand(ctx, out, &Batch{File: s.file, Offset: s.offset, Next: s.offset, Again: s.again, Position: s.position(cursor)})
}

func (s *stream) position(cursor string) Position {
	return Position{Log: s.file.Log, Path: s.file.Path, Offset: s.offset, Cursor: cursor}
}

func (s *stream) hand(ctx context.Context, out chan<- *Batch, b *Batch) bool {
	select {
	case out <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// send makes a batch of c. It returns false if ctx is done.
func (s *stream) send(ctx context.Context, out chan<- *Batch, c *chunk, behind int64) bool {
	if c.lines == 0 {
		return true
	}
	b := &Batch{
		File: s.file, Data: c.buf, Offset: s.offset, Cut: c.cut, Again: s.again, Behind: behind,
		pool: &s.pool, buf: c.buf,
	}
	s.offset += int64(len(c.buf))
	if c.cut {
		s.offset++ // for the line feed that is missing, so that no two lines have one place
	}
	b.Next, b.Position = s.offset, s.position(c.cursor)
	s.lines.Add(c.lines)
	s.bytes.Add(int64(len(c.buf)))
	if c.cut {
		s.cut.Add(1)
	}
	s.last.Store(time.Now().UnixNano())
	if !s.hand(ctx, out, b) {
		return false
	}
	*c = chunk{}
	return true
}

// fine says that there is no trouble.
func (s *stream) fine(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said != "" && state == Following {
		s.log.Info("reading again")
		s.said = ""
	}
	s.state, s.err = state, ""
}

// trouble notes what keeps lines from coming, and logs it unless it was the
// last that was said.
func (s *stream) trouble(msg string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := msg + ": " + err.Error()
	if s.said != text {
		s.said = text
		s.log.Warn(msg+", trying again", slog.Any("err", err))
	}
	s.state, s.err = Failing, text
}

// failed notes trouble that lasts.
func (s *stream) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = Failing, err.Error()
}

// waiting says that there is nothing to read yet.
func (s *stream) waiting(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := err.Error(); s.said != text {
		s.said = text
		s.log.Warn("nothing there yet, waiting for it", slog.Any("err", err))
	}
	s.state, s.err = Waiting, err.Error()
}

// warnOnce logs what is dubious, once.
func (s *stream) warnOnce(msg string) {
	s.once.Do(func() { s.log.Warn(msg) })
}

func (s *stream) stats() StreamStats {
	st := StreamStats{
		Name: s.file.Path, Lines: s.lines.Load(), Bytes: s.bytes.Load(), Cut: s.cut.Load(),
		Malformed: s.malformed.Load(), Refused: s.refused.Load(), Dropped: s.dropped.Load(),
		KernelDropped: s.lost.Load(), Gaps: s.gaps.Load(), Restarts: s.restarts.Load(),
	}
	if last := s.last.Load(); last != 0 {
		st.LastLine = time.Unix(0, last)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st.State, st.Err = s.state, s.err
	return st
}

const chunkSize = 64 << 10

// chunk is lines on their way into a batch. The zero chunk is empty.
type chunk struct {
	buf    []byte // from the pool
	lines  int64
	cut    bool   // there is one line, without its end
	cursor string // of the last line
}

// add appends a line, if there is room for it. A line feed inside of it becomes
// the two characters \n: whoever gets one into a message must not be able to
// make a line of his own. A line of more than limit bytes, or one that is cut
// already, needs a chunk for itself.
func (c *chunk) add(p *pool, line []byte, limit int, cut bool) bool {
	size := len(line) + bytes.Count(line, lineFeed)
	if size > limit {
		size, cut = limit, true
	}
	if c.buf == nil {
		c.buf = p.get(max(size+1, chunkSize))[:0]
		if cut {
			c.buf = p.get(size)[:0]
		}
	} else if cut || c.cut || len(c.buf)+size+1 > cap(c.buf) {
		return false
	}
	c.buf = appendLine(c.buf, line, len(c.buf)+size)
	if !cut {
		c.buf = append(c.buf, '\n')
	}
	c.cut = cut
	c.lines++
	return true
}

var lineFeed = []byte{'\n'}

// appendLine appends a line without line feeds, up to a length of buf.
func appendLine(buf, line []byte, end int) []byte {
	for len(line) > 0 && len(buf) < end {
		i := bytes.IndexByte(line, '\n')
		if i < 0 {
			return append(buf, line[:min(len(line), end-len(buf))]...)
		}
		buf = append(buf, line[:min(i, end-len(buf))]...)
		if end-len(buf) < 2 {
			return buf // no half of one
		}
		buf = append(buf, `\n`...)
		line = line[i+1:]
	}
	return buf
}

// builder makes batches of lines that come one by one.
type builder struct {
	s *stream
	c chunk
}

// add takes a line, and sends those before it if there is no room. It returns
// false if ctx is done.
func (b *builder) add(ctx context.Context, out chan<- *Batch, line []byte, cut bool, cursor string) bool {
	if !b.c.add(&b.s.pool, line, b.s.maxLine, cut) {
		if !b.flush(ctx, out) {
			return false
		}
		b.c.add(&b.s.pool, line, b.s.maxLine, cut)
	}
	b.c.cursor = cursor
	return true
}

func (b *builder) flush(ctx context.Context, out chan<- *Batch) bool {
	return b.s.send(ctx, out, &b.c, 0)
}

// pauses are those before something is tried again: each is twice as long as the
// one before, until reset.
type pauses struct {
	least, most time.Duration
	next        time.Duration
}

func newPauses() pauses { return pauses{least: time.Second, most: time.Minute} }

func (p *pauses) reset() { p.next = 0 }

// wait returns false if ctx is done.
func (p *pauses) wait(ctx context.Context) bool {
	p.next = min(max(p.next, p.least), p.most)
	d := p.next
	p.next *= 2
	return sleep.For(ctx, d)
}
