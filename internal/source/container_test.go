package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUnwrap(t *testing.T) {
	tests := []struct {
		c        Container
		in, want string
		says     piece
	}{
		{Docker, `{"log":"GET /\n","stream":"stdout","time":"2026-11-29T12:40:00.1Z"}`, "GET /", piece{}},
		{Docker, `{"log":"GET /\n","stream":"stderr","time":"2026-11-29T12:40:00.1Z"}`, "GET /", piece{stream: 1}},
		{Docker, `{"log":"a \"q\" \\ \/ \u00e4 \ud83d\ude00 \t.\n","stream":"stdout"}`, "a \"q\" \\ / ä 😀 \t.", piece{}},
		{Docker, `{"log":"one\ntwo\n","stream":"stdout"}`, `one\ntwo`, piece{}},
		{Docker, `{"log":"a piece","stream":"stdout"}`, "a piece", piece{more: true}},
		{Docker, `{"log":"\n","stream":"stdout"}`, "", piece{}},
		{Docker, `{"stream":"stderr","log":"x\n"}`, "x", piece{stream: 1}},
		{Docker, `{"log":"torn \u00`, "torn \uFFFD00", piece{more: true}},
		{Docker, `{"log":"half \ud83d.\n"}`, "half \uFFFD.", piece{}},
		{Docker, `{"log":"says \"stream\":\"stderr\"\n","stream":"stdout"}`, `says "stream":"stderr"`, piece{}},
		{Docker, `203.0.113.9 - -`, `203.0.113.9 - -`, piece{}},
		{Docker, `{"msg":"x"}`, `{"msg":"x"}`, piece{}},
		{CRI, `2016-10-06T00:17:09.669794202Z stdout F GET / now`, "GET / now", piece{}},
		{CRI, `2016-10-06T00:17:09.669794202Z stderr P GET `, "GET ", piece{stream: 1, more: true}},
		{CRI, `2016-10-06T00:17:09.669794202Z stdout P:tag x`, "x", piece{more: true}},
		{CRI, `2016-10-06T00:17:09.669794202Z stdout F `, "", piece{}},
		{CRI, `2016-10-06T00:17:09.669794202Z stdout F`, "", piece{}},
		{CRI, `203.0.113.9 stdout X y`, `203.0.113.9 stdout X y`, piece{}},
		{CRI, `plain`, `plain`, piece{}},
	}
	for _, tt := range tests {
		got, says := tt.c.piece([]byte("before "), []byte(tt.in))
		if string(got) != "before "+tt.want || says != tt.says {
			t.Errorf("%s %s: %q %+v, want %q %+v", tt.c, tt.in, got, says, "before "+tt.want, tt.says)
		}
	}
}

// What encoding/json makes of a line is what we make of it.
func FuzzDocker(f *testing.F) {
	f.Add("GET / \"x\" \\ ä\n")
	f.Add("\x00\x1f\u2028</script>\n")
	f.Add("😀 piece")
	f.Fuzz(func(t *testing.T, text string) {
		line, err := json.Marshal(struct {
			Log    string `json:"log"`
			Stream string `json:"stream"`
		}{text, "stderr"})
		if err != nil {
			t.Skip()
		}
		var back struct{ Log string }
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		whole, ended := strings.CutSuffix(back.Log, "\n")
		got, says := Docker.piece(nil, line)
		if want := strings.ReplaceAll(whole, "\n", `\n`); string(got) != want || says.more == ended || says.stream != 1 {
			t.Errorf("%s: %q %+v, want %q", line, got, says, want)
		}
	})
}

// Whatever stands in a file, lines stay lines, in order and in bounds.
func FuzzRecords(f *testing.F) {
	f.Add("{\"log\":\"a\",\"stream\":\"stdout\"}\n{\"log\":\"b\\n\",\"stream\":\"stdout\"}\nplain\n", 5, true)
	f.Add("2016 stdout P a\n2016 stderr F b\n2016 stdout F c\n", 5, false)
	f.Fuzz(func(t *testing.T, in string, limit int, force bool) {
		if limit < 1 || limit > 1<<16 || !strings.HasSuffix(in, "\n") {
			t.Skip()
		}
		for _, c := range []Container{Docker, CRI} {
			for rest, at := in, int64(7); rest != ""; {
				u := c.records([]byte(rest), at, limit, force, false)
				if u.raw == 0 && !force {
					break
				}
				if u.raw <= 0 || u.raw > len(rest) || rest[u.raw-1] != '\n' {
					t.Fatalf("%s: %d bytes of %q", c, u.raw, rest)
				}
				n := bytes.Count(u.data, []byte{'\n'})
				if u.cut {
					n++
				}
				if n != len(u.starts) || u.cut && (n != 1 || len(u.data) > limit) {
					t.Fatalf("%s: %q with %d starts, cut %v", c, u.data, len(u.starts), u.cut)
				}
				for _, line := range bytes.Split(u.data, []byte{'\n'}) {
					if len(line) > limit {
						t.Fatalf("%s: line of %d bytes, limit %d", c, len(line), limit)
					}
				}
				for _, s := range u.starts {
					if s < at || s >= at+int64(u.raw) {
						t.Fatalf("%s: a line begins at %d, not in %d and %d bytes more", c, s, at, u.raw)
					}
				}
				rest, at = rest[u.raw:], at+int64(u.raw)
			}
		}
	})
}

// wrapped writes texts as a runtime does, in pieces and from two streams at a
// time, and tells at which byte each begins, in the order in which they end.
func wrapped(t *rapid.T, c Container, texts []string, pieceMax int) (content string, ended []string, starts map[string]int64) {
	var b strings.Builder
	starts = make(map[string]int64)
	var left, whole [streams]string
	names := []string{"stdout", "stderr"}
	write := func(s int, text string, last bool) {
		if c == CRI {
			fmt.Fprintf(&b, "2016-10-06T00:17:09.669794202Z %s %s %s\n", names[s], map[bool]string{true: "F", false: "P"}[last], text)
			return
		}
		if last {
			text += "\n"
		}
		line, _ := json.Marshal(struct {
			Log    string `json:"log"`
			Stream string `json:"stream"`
			Time   string `json:"time"`
		}{text, names[s], "2026-11-29T12:40:00.1Z"})
		b.Write(append(line, '\n'))
	}
	for len(texts) > 0 || left[0] != "" || left[1] != "" {
		s := rapid.IntRange(0, 1).Draw(t, "stream")
		if left[s] == "" {
			if len(texts) == 0 {
				s = 1 - s
			} else {
				left[s], whole[s], texts = texts[0], texts[0], texts[1:]
				starts[whole[s]] = int64(b.Len())
			}
		}
		n := min(len(left[s]), rapid.IntRange(1, pieceMax).Draw(t, "piece"))
		write(s, left[s][:n], n == len(left[s]))
		left[s] = left[s][n:]
		if left[s] == "" {
			ended = append(ended, whole[s])
		}
	}
	return b.String(), ended, starts
}

// However a wrapped log is written and cut, each text comes once, whole, with
// where it begins; and from any position that was told, the rest of them.
func TestWrappedLinesComeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom([]Container{Docker, CRI}).Draw(t, "container")
		limit := 200_000
		var texts []string
		for i := range rapid.IntRange(1, 12).Draw(t, "texts") {
			texts = append(texts, fmt.Sprintf("%d %s", i, strings.Repeat("x", rapid.IntRange(0, 9000).Draw(t, "length"))))
		}
		content, want, starts := wrapped(t, c, texts, rapid.SampledFrom([]int{50, 4000, 16384}).Draw(t, "pieces"))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var p pool
		open := func(at int64) *reader {
			r, err := newReader(f, &File{Log: "web"}, path, at, true, limit, c, &p)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := open(0)
		var got []string
		for rest := content; len(rest) > 0; {
			n := min(rapid.IntRange(1, len(content)).Draw(t, "write"), len(rest))
			if _, err := w.WriteString(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			if rapid.IntRange(0, 3).Draw(t, "restart") == 0 {
				r = open(r.offset)
			}
			if c, _, err := r.refresh(); err != nil || c != intact {
				t.Fatal(c, err)
			}
			for more := true; more; {
				var b *Batch
				if b, more, err = r.read(); err != nil {
					t.Fatal(err)
				}
				if b == nil {
					continue
				}
				lines := strings.Split(strings.TrimSuffix(string(b.Data), "\n"), "\n")
				for i, line := range lines {
					if b.Starts[i] != starts[line] {
						t.Fatal("line begins at", b.Starts[i], "want", starts[line])
					}
				}
				got = append(got, lines...)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("got %d lines, want %d", len(got), len(want))
		}
	})
}

func TestWrappedLineIsCut(t *testing.T) {
	for c, file := range map[Container]string{
		Docker: `{"log":"` + strings.Repeat(`é`, 1000) + `\n","stream":"stdout"}` + "\n" + `{"log":"after\n","stream":"stdout"}` + "\n",
		CRI:    strings.Repeat("2016-10-06T00:17:09Z stdout P "+strings.Repeat("é", 60)+"\n", 4000) + "2016-10-06T00:17:09Z stdout F .\n2016-10-06T00:17:09Z stdout F after\n",
	} {
		bothWays(t, func(t *testing.T, o FilesOptions) {
			path := logPath(t)
			o.MaxLine, o.Container, o.FromStart = 100, c, true
			create(t, path, file)
			s := begin(t, o, path)
			s.until("the line after", func([]part) bool { return strings.HasSuffix(s.text(), "after\n") })
			if p := s.parts[0]; p.Data != strings.Repeat("é", 50) || !p.Cut {
				t.Errorf("%s: got %q, cut %v", c, shorten(p.Data), p.Cut)
			}
		})
	}
}

// The rest of a line that began before us is not a line.
func TestWrappedLogIsJoinedInside(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		o.Container = CRI
		f := create(t, path, "2016-10-06T00:17:09Z stdout P begun \n")
		s := begin(t, o, path)
		s.ready(path)
		write(t, f, "2016-10-06T00:17:09Z stdout F before\n2016-10-06T00:17:09Z stdout F new\n")
		s.wants("new\n")
	})
}
