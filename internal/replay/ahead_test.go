package replay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// logLines writes lines of a log, ordinary ones and others, for a format.
func logLines(r *rand.Rand, format string, lines int) []byte {
	var b bytes.Buffer
	at := time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC)
	for i := range lines {
		at = at.Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		seen := at.Add(-time.Duration(r.IntN(5)*r.IntN(20)) * time.Second)
		peer := fmt.Sprintf("203.0.113.%d", r.IntN(30))
		if r.IntN(4) == 0 {
			peer = fmt.Sprintf("2001:db8:%x::%x", r.IntN(5), r.IntN(3))
		}
		path := strings.Repeat("/a%2fb", r.IntN(4)) + fmt.Sprintf("/%d\\x22", i)
		agent := strings.Repeat("x", r.IntN(60))
		switch n := r.IntN(400); {
		case n == 0:
			b.WriteString("# a remark\n")
		case n == 1:
			b.WriteString("nonsense " + path + "\n")
		case n == 2:
			b.WriteByte('\n')
		case n == 3:
			agent = strings.Repeat("long", 400) // beyond max_line
		case n == 4:
			agent = strings.Repeat("far too long", 20_000) // beyond a block
		}
		switch format {
		case "nginx":
			fmt.Fprintf(&b, "%s - - [%s] \"GET %s HTTP/1.1\" 200 %d \"-\" \"%s\" \"-\"\n", peer, seen.Format("02/Jan/2006:15:04:05 -0700"), path, i, agent)
		case "nginx-json":
			fmt.Fprintf(&b, `{"remote_addr":"%s","time_iso8601":"%s","request":"GET %s HTTP/1.1","status":"200","http_user_agent":"%s\u0022"}`+"\n",
				peer, seen.Format(time.RFC3339), strings.ReplaceAll(path, `\`, `\\`), agent)
		case "haproxy": // its times have no offset, and an hour of that night comes twice
			fmt.Fprintf(&b, "haproxy[1]: %s:5 [%s.000] f b/s 0/0/0/0/0 200 %d - - ---- 1/1/1/1/0 0/0 \"GET %s HTTP/1.1\"\n", peer, seen.Format("02/Jan/2006:15:04:05"), i, path)
		}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// pieces reads in pieces of any size.
type pieces struct {
	in io.Reader
	r  *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.in.Read(b[:min(len(b), 1+p.r.IntN(1<<p.r.IntN(18)))])
}

// Whether lines are parsed ahead or not, and however the input is cut, all that
// is written is the same to the byte.
func TestParsedAheadIsNoDifferent(t *testing.T) {
	for _, format := range []string{"nginx", "nginx-json", "haproxy"} {
		t.Run(format, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			cfg := parse(t, fmt.Sprintf("[logs.site]\nfiles = \"/x\"\nformat = %q\nmax_line = 1024\n%s\n[jails.web]\nlimit = 5\nwindow = \"60s\"\nban = [\"2m\", \"5m\"]\n",
				format, map[bool]string{true: `timezone = "Europe/Berlin"`}[format == "haproxy"]))
			log := logLines(r, format, 20_000)
			run := func(cores int, in io.Reader, files ...string) string {
				var out bytes.Buffer
				err := Run(context.Background(), Options{Config: cfg, Files: files, In: in, Out: &out, Notes: &out, JSON: true,
					Raw: true, Cores: cores, Now: func() time.Time { return time.Time{} }})
				if err != nil {
					t.Fatal(err)
				}
				return out.String()
			}
			want := run(1, bytes.NewReader(log), stdin)
			if strings.Count(want, `"jail":"web"`) < 50 {
				t.Fatalf("few decisions: the test shows little\n%s", want)
			}
			for _, cores := range []int{1, 2} {
				for range 3 {
					if got := run(cores, &pieces{bytes.NewReader(log), r}, stdin); got != want {
						t.Fatalf("%d cores, in pieces:\n%s\nwant:\n%s", cores, got, want)
					}
				}
			}

			// Several files: each after the other, and at the same time.
			dir := t.TempDir()
			var names []string
			rest := bytes.SplitAfter(log, []byte("\n"))
			for i, lines := range [][][]byte{rest[:5000], rest[5000:12_000], rest[12_000:], rest[:3000]} {
				name := filepath.Join(dir, fmt.Sprint(i))
				if err := os.WriteFile(name, bytes.Join(lines, nil), 0o600); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			for n := 2; n <= 4; n++ {
				if got, want := run(2, nil, names[:n]...), run(1, nil, names[:n]...); got != want {
					t.Fatalf("%d files on two cores:\n%s\nwant:\n%s", n, got, want)
				}
			}
		})
	}
}

// What goes wrong behind some lines is told behind what comes of them.
func TestParsedAheadFails(t *testing.T) {
	cfg := parse(t, generatorJail)
	log := logLines(rand.New(rand.NewPCG(3, 4)), "nginx", 5000)
	for _, cores := range []int{1, 2} {
		var out bytes.Buffer
		err := Run(context.Background(), Options{Config: cfg, Files: []string{stdin}, In: io.MultiReader(bytes.NewReader(log), iotest.ErrReader(io.ErrNoProgress)),
			Out: &out, Notes: &out, Cores: cores, Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), io.ErrNoProgress.Error()) || !strings.Contains(out.String(), "lines") {
			t.Errorf("%d cores: %v\n%s", cores, err, out.String())
		}
	}
}
