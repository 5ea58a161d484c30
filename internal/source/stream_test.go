package source

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// beginSource runs a source with a consumer as begin does for files.
func beginSource(t *testing.T, source func(*slog.Logger) Source) *session {
	t.Helper()
	s := &session{
		t: t, out: make(chan *Batch), ended: make(chan error, 1), said: &logbook{}, positions: map[identity]Position{},
	}
	src := source(slog.New(slog.NewTextHandler(s.said, nil)))
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.ended <- src.Run(ctx, s.out) }()
	t.Cleanup(func() { s.stop() })
	return s
}

// announced takes batches until one has told where reading begins.
func (s *session) announced() Position {
	s.t.Helper()
	s.quietUntil("the first position", func() bool { return len(s.positions) > 0 })
	return s.positions[identity{}]
}

// waitUntil waits for a condition, while nobody takes lines.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// contiguous checks that every byte has a place of its own.
func (s *session) contiguous() {
	s.t.Helper()
	for i, p := range s.parts {
		if want := p.Start + int64(len(p.Data)); p.Next < want || p.Next > want+1 {
			s.t.Errorf("part %d is %d bytes from %d to %d", i, len(p.Data), p.Start, p.Next)
		}
		if i > 0 && p.Start != s.parts[i-1].Next {
			s.t.Errorf("part %d begins at %d, the one before ends at %d", i, p.Start, s.parts[i-1].Next)
		}
	}
}

func TestChunkMakesNoSecondLine(t *testing.T) {
	tests := []struct {
		line  string
		limit int
		cut   bool
		want  string
		isCut bool
	}{
		{"plain", 10, false, "plain\n", false},
		{"", 10, false, "\n", false},
		{"a\nb", 10, false, "a\\nb\n", false},
		{"\n\n", 10, false, "\\n\\n\n", false},
		{"ab\n", 4, false, "ab\\n\n", false},
		{"abc\n", 4, false, "abc", true},
		{"abc\nd", 5, false, "abc\\n", true},
		{"abcdef", 4, false, "abcd", true},
		{"abc", 10, true, "abc", true},
	}
	for _, tt := range tests {
		var p pool
		var c chunk
		if !c.add(&p, []byte(tt.line), tt.limit, tt.cut) {
			t.Errorf("%q: no room in an empty chunk", tt.line)
		}
		if string(c.buf) != tt.want || c.cut != tt.isCut {
			t.Errorf("%q with limit %d: %q, cut %v; want %q, %v", tt.line, tt.limit, c.buf, c.cut, tt.want, tt.isCut)
		}
		if c.cut && c.add(&p, []byte("next"), 10, false) {
			t.Errorf("%q: a line behind one that is cut", tt.line)
		}
	}
}

func TestChunkFillsUp(t *testing.T) {
	var p pool
	var c chunk
	line := []byte(strings.Repeat("x", 999))
	n := 0
	for c.add(&p, line, 1000, false) {
		n++
	}
	if want := chunkSize / 1000; n != want || cap(c.buf) != chunkSize {
		t.Errorf("%d lines in %d bytes, want %d in %d", n, cap(c.buf), want, chunkSize)
	}
}
