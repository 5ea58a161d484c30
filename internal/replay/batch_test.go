package replay

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/tailban/tailban/parser"
)

// What a long line was in goes with its batch, also if the batches that use the same
// memory later have fewer lines.
func TestBatchLetsGoOfLongLines(t *testing.T) {
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
		const maxLine = 1 << 20
		p := &batches{format: format, limit: maxLine, copy: true, keep: !parser.Stateless(format)}
		b := new(batch)
		fill := func(text string) {
			from := block{data: []byte(text)}
			b.parse(p, b.fill(&from, true), false)
			if len(from.data) > 0 || b.records[0].Err != nil {
				t.Fatalf("%s: %d bytes are left, %v", name, len(from.data), b.records[0].Err)
			}
		}
		var long []weak.Pointer[byte]
		for n := 8; n > 1; n-- {
			fill(strings.Repeat(record("x"), n) + record(strings.Repeat("x", maxLine/2)))
			long = append(long, weak.Make(&b.copied[0]))
			if name != "nginx" {
				long = append(long, weak.Make(&b.texts[0]))
			}
		}
		fill(record("x"))
		runtime.GC()
		for i, x := range long {
			if x.Value() != nil {
				t.Errorf("%s: the memory of long lines is kept, %d of %d", name, i, len(long))
			}
		}
		runtime.KeepAlive(b)
	}
}
