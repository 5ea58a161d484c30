package source

import (
	"bytes"
	"math/bits"
	"sync"
)

// Done gives the memory of Data back. The batch must not be used afterwards,
// except for what File points to and for Position.
func (b *Batch) Done() {
	if b.pool == nil {
		return
	}
	b.pool.put(b.buf)
	b.pool, b.buf, b.Data = nil, nil, nil
}

// batchBytes is about what a batch takes besides its lines: itself, and the texts
// of its position.
const batchBytes = 512

// Keep makes ready for a long wait: memory that the lines do not need is given
// back, as buffers are of 4 KiB at least. It returns how much the batch takes
// then, in bytes.
func (b *Batch) Keep() int {
	if b.pool != nil && cap(b.buf) > 2*len(b.Data) {
		data := bytes.Clone(b.Data)
		b.pool.put(b.buf)
		b.pool, b.buf, b.Data = nil, nil, data
	}
	return batchBytes + max(cap(b.buf), cap(b.Data)) + 8*cap(b.Starts)
}

// lines is how many lines Data holds.
func (b *Batch) lines() int64 {
	n := int64(bytes.Count(b.Data, []byte{'\n'}))
	if len(b.Data) > 0 && b.Data[len(b.Data)-1] != '\n' {
		n++
	}
	return n
}

const (
	minClass = 12 // 4 KiB, enough for the lines of one wake-up
	maxClass = 24 // 16 MiB; larger buffers are left to the garbage collector
)

// pool keeps read buffers, one free list per power of two. Buffers and not
// batches are pooled: a batch that is touched after Done is then a wrong
// length at worst, never another file's line under this file's name.
type pool struct {
	classes [maxClass - minClass + 1]sync.Pool
}

// get returns a buffer of length n.
func (p *pool) get(n int) []byte {
	class := max(bits.Len(uint(n-1)), minClass)
	if class > maxClass {
		return make([]byte, n)
	}
	if b, ok := p.classes[class-minClass].Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, n, 1<<class)
}

func (p *pool) put(b []byte) {
	class := bits.Len(uint(cap(b))) - 1
	if class < minClass || class > maxClass || cap(b) != 1<<class {
		return
	}
	p.classes[class-minClass].Put(&b)
}
