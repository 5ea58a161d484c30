// Package syncbuf has a buffer that is read while others write to it.
package syncbuf

import (
	"bytes"
	"sync"
)

// Buffer keeps what is written to it. The zero value is empty and ready; it
// must not be copied.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer; it never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns all that has been written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
