package source

import (
	"strings"
	"testing"
)

// What waits takes little more than its lines, and an empty batch is not free.
func TestBatchThatIsKept(t *testing.T) {
	for _, n := range []int{0, 1, 100, 3000, 4000, 60_000} {
		var p pool
		text := strings.Repeat("x", n)
		buf := p.get(max(n, 1))
		copy(buf, text)
		b := &Batch{Data: buf[:n], pool: &p, buf: buf}
		if got := b.Keep(); got < batchBytes+n || got > batchBytes+2*n+16 {
			t.Errorf("%d bytes of lines take %d", n, got)
		}
		other := p.get(max(n, 1)) // which may be the one that was given back
		for i := range other {
			other[i] = 'y'
		}
		if string(b.Data) != text {
			t.Errorf("%d bytes of lines are others when they have waited", n)
		}
		b.Done()
	}
}
