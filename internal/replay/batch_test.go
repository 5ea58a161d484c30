package replay

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

// What a long line was in goes with its batch, also if the batches that use the same
// memory later have fewer lines.
func TestBatchLetsGoOfLongLines(t *testing.T) {
	if testing.Short() {
		t.Skip("is about memory, and takes seconds")
	}
	for _, name := range []string{"nginx", "nginx-json"} { // the events of one are in the lines, those of the other beside them
		format, err := parser.NewFormat(name)
		if err != nil {
			t.Fatal(err)
		}
		record := func(agent string) string {
			if name == "nginx" {
				return fmt.Sprintf("203.0.113.9 - - [24/Oct/2026:20:00:02 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"%s\" \"-\"\n", agent)
			}
			return fmt.Sprintf(`{"remote_addr":"203.0.113.9","time_iso8601":"2026-10-24T20:00:02+00:00","request":"GET / HTTP/1.1","status":"200","http_user_agent":"%s\u0022"}`+"\n", agent)
		}
		const maxLine = 4 << 20 // many times what is kept
		var text strings.Builder
		for n := 8; n > 1; n-- {
			text.WriteString(strings.Repeat(record("x"), n) + record(strings.Repeat("x", maxLine/2)))
		}
		text.WriteString(record("x")) // which overwrites nothing that is left of those before
		lines := newBatches(newBlocks(strings.NewReader(text.String()), maxLine))
		lines.ahead = true
		p := newParsing(format, detector.NewEngine(detector.Options{}), maxLine)
		b := &batch{parsed: make(chan struct{}, 1)}
		var long []weak.Pointer[byte]
		for lines.next(b, p); b.err == nil; lines.next(b, p) {
			b.finish(p)
			<-b.parsed
			for i := range b.lines() {
				if line := b.line(i); len(line) > maxLine/2 {
					long = append(long, weak.Make(&line[0]))
				}
				if agent := b.events[i].Agent; len(agent) >= maxLine/2 {
					long = append(long, weak.Make(&agent[0]))
				}
				if b.whose[i].Failed() {
					t.Fatalf("%s: %v", name, b.errs[i])
				}
			}
		}
		if len(long) != 2*7 {
			t.Fatalf("%s: %d long lines and agents were seen", name, len(long))
		}
		runtime.GC()
		for i, x := range long[:len(long)-2] { // the last one is in the buffer at hand
			if x.Value() != nil {
				t.Errorf("%s: the memory of long lines is kept, %d of %d", name, i, len(long))
			}
		}
		runtime.KeepAlive(lines)
		runtime.KeepAlive(b)
	}
}
