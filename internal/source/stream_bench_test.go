package source

import (
	"bytes"
	"strings"
	"testing"
)

func BenchmarkJournalEntry(b *testing.B) {
	const boot = `"_BOOT_ID":"093507f302314028bd0df7fd1e71e685","__REALTIME_TIMESTAMP":"1796018305608789","__MONOTONIC_TIMESTAMP":"5867504339",`
	line := []byte(`{` + boot + `"__CURSOR":"s=5dd65ff4c1e24f6bb953e06b5d0c3d79;i=25;b=093507f302314028bd0df7fd1e71e685;m=15dbb02d3;t=66178191dac55;x=e2547f9f6dc58692","MESSAGE":"` +
		strings.ReplaceAll(line1, `"`, `\"`) + `"}` + "\n")
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	r := newJournalReader(&repeated{text: line}, 1000)
	for b.Loop() {
		if err := r.next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSyslogLine(b *testing.B) {
	msg := []byte("<190>Nov 30 05:19:53 www1 nginx: " + line1)
	y := NewSyslog(SyslogOptions{Network: "unix", Address: "/x"})
	b.ReportAllocs()
	for b.Loop() {
		y.message(msg, false)
		if len(y.q.chunks) > 1 {
			c, _, _ := y.q.take()
			y.s.pool.put(c.buf)
		}
	}
	if y.s.dropped.Load() > 0 {
		b.Error("lines were dropped")
	}
}

// repeated is the same text without end.
type repeated struct {
	text []byte
	rest []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.rest = bytes.Repeat(r.text, 1+len(p)/len(r.text))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
