package detector

import (
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
)

// Half a line makes the next one that parses doubtful: in its file only, and
// only that one; what is no record changes nothing.
func TestSkipAfterUnparsed(t *testing.T) {
	good := line("203.0.113.5", 0, "GET / HTTP/1.1", 200, "x", "-")
	half := "198.51.100.1 - root"
	a, b := Line{Path: "/a"}, Line{Path: "/b"}
	rotated := Line{Path: "/a", Ino: 7}
	for _, skip := range []bool{false, true} {
		e := NewEngine(Options{Jails: []Jail{{Name: "j", Logs: []string{"l"}, Limit: 100, Window: time.Second, Ban: bans(time.Minute)}}})
		f, err := parser.NewFormat("nginx")
		if err != nil {
			t.Fatal(err)
		}
		l := e.Log("l", f)
		if skip {
			l.SkipAfterUnparsed(true)
		}
		for i, tt := range []struct {
			text    string
			at      Line
			skipped bool
		}{
			{good, a, false},
			{half, a, false},
			{good, b, false},
			{good, rotated, false},
			{"", a, false},
			{good, a, true},
			{good, a, false},
			{half, a, false},
			{half, a, false},
			{half, b, false},
			{good, a, true},
			{good, b, true},
			{good, b, false},
		} {
			want := StepCounted
			switch {
			case tt.text == half || skip && tt.skipped:
				want = StepUnparsed
			case tt.text == "":
				want = StepNotRecord
			}
			v := e.Line(l, []byte(tt.text), false, tt.at, 0)
			if v.Step != want || skip && tt.skipped && (e.Peer().IsValid() || v.Err == nil) {
				t.Errorf("skip %v, line %d: %s, peer %v, %v; want %s", skip, i, v.Step, e.Peer(), v.Err, want)
			}
		}
	}
}
