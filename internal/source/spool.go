package source

import "sync"

// spool holds lines between a socket, which must always be read, and a
// receiver, which may be behind: up to a limit of memory. Beyond it lines are
// refused.
type spool struct {
	pool  *pool
	limit int // bytes of a line
	max   int // bytes of memory
	ready chan struct{}

	mu     sync.Mutex
	chunks []chunk
	size   int // memory of chunks
	closed bool
}

func newSpool(p *pool, limit, most int) *spool {
	return &spool{pool: p, limit: limit, max: most, ready: make(chan struct{}, 1)}
}

// put takes a line, or returns false if there is no room. The line can be used
// again afterwards.
func (q *spool) put(line []byte, cut bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.chunks); n > 0 && q.chunks[n-1].add(q.pool, line, q.limit, cut) {
		return true
	}
	if len(q.chunks) > 0 && q.size+max(chunkSize, 2*min(len(line), q.limit)) > q.max {
		return false
	}
	var c chunk
	c.add(q.pool, line, q.limit, cut)
	q.chunks = append(q.chunks, c)
	q.size += cap(c.buf)
	nudge(q.ready)
	return true
}

// take returns the oldest lines, and how many bytes are behind them.
func (q *spool) take() (c chunk, behind int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 {
		return chunk{}, 0, false
	}
	c = q.chunks[0]
	q.chunks[0] = chunk{}
	q.chunks = q.chunks[1:]
	q.size -= cap(c.buf)
	return c, q.bytes(), true
}

func (q *spool) bytes() (n int64) {
	for i := range q.chunks {
		n += int64(len(q.chunks[i].buf))
	}
	return n
}

func (q *spool) queued() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes()
}

// close says that nothing is put any more.
func (q *spool) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	nudge(q.ready)
}

func (q *spool) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
