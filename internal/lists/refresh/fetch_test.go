package refresh

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/internal/lists"
)

// What can't be right is never used, said once, and asked for again less and less
// often.
func TestBad(t *testing.T) {
	good := text(builtIn("googlebot"))
	with := func(line string) http.HandlerFunc { return page(good + line + "\n") }
	// Packed once: it takes longest, and is asked for again and again.
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write([]byte(good))
	for range 8 {
		z.Write([]byte(strings.Repeat("\n", 1<<20)))
	}
	z.Close()
	for _, tt := range []struct {
		name string
		page http.HandlerFunc
		want string
	}{
		{"empty", page(""), "it has no ranges"},
		{"no prefixes", page(`{"prefixes": []}`), "has no ranges in a form that is known"},
		{"a page", page("<html>We have moved</html>"), "is no address"},
		{"everything", with("0.0.0.0/0"), "every address there is"},
		{"private", with("192.168.0.0/24"), "nobody's on the Internet"},
		{"loopback", with("127.0.0.1"), "nobody's on the Internet"},
		{"huge", page(strings.Repeat("#", lists.MaxSize) + "\n" + good), "larger than 1 MiB"},
		{"huge when unpacked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		}, "larger than 1 MiB"},
		{"truncated JSON", page(`{"prefixes": [{"ipv4Prefix": "20.0.`), "ends too early"},
		{"truncated", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(good)))
			w.Write([]byte(good[:len(good)-20]))
		}, "unexpected EOF"},
		{"without a length", func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprintf(c, "HTTP/1.0 200 OK\r\n\r\n%s", good[:len(good)-20])
				c.Close()
			}
		}, "doesn't say how long its answer is"},
		{"an error", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, good, http.StatusBadGateway) }, "HTTP status 502"},
		{"not there", nil, "HTTP status 404"},
		{"the same as nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, "HTTP status 304"},
		{"no HTTP", func(w http.ResponseWriter, _ *http.Request) {
			if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
				c.Close()
			}
		}, "EOF"},
		{"a long header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 11<<20))
			w.Write([]byte(good))
		}, "header"},
		{"hanging", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no whole answer within 30s"},
		{"hanging in the middle", func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte(good))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "no whole answer within 30s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.want == "header" {
				t.Skip("only computes, for seconds")
			}
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, list("googlebot", false, google))
				r.serve(google, tt.page)
				r.start()
				r.pass(within + Timeout)
				s := r.stored("googlebot")
				if s.Failing == nil || !strings.Contains(s.Failing.Err, tt.want) || !strings.Contains(s.Failing.Err, "https://"+google) || s.Used != nil {
					t.Fatalf("%+v, %+v", s.Failing, s)
				}
				r.pass(3 * every)
				all := r.times(google)
				for i, at := range all[1:] {
					least := min(Retry<<i, every)
					if gap := at.Sub(all[i]); gap < least || gap > least+least/10+Timeout+time.Second {
						t.Errorf("attempt %d comes after %v, want %v", i+2, gap, least)
					}
				}
				r.said(1, "can't be fetched")
				r.serve(google, page(good))
				r.pass(2 * every)
				if s := r.stored("googlebot"); s.Failing != nil || !r.inUse("googlebot").Fetched {
					t.Errorf("when it is right again: %+v", s.Failing)
				}
				r.said(1, "can be fetched again")
				r.stop()
			})
		})
	}
}

// Of what is too large no more is taken than shows that.
func TestNoMoreIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("googlebot", false, google))
		written := 0
		r.serve(google, func(w http.ResponseWriter, _ *http.Request) {
			for range 64 {
				n, err := w.Write([]byte(strings.Repeat("#", 1<<20)))
				if written += n; err != nil {
					return
				}
			}
		})
		r.start()
		r.pass(within + Timeout)
		if s := r.stored("googlebot"); s.Failing == nil || written > 3<<20 {
			t.Errorf("%d bytes were taken: %+v", written, s.Failing)
		}
		r.stop()
	})
}

func TestRedirects(t *testing.T) {
	good := text(builtIn("googlebot"))
	to := func(url string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, url, http.StatusFound) }
	}
	for _, tt := range []struct {
		name  string
		pages map[string]http.HandlerFunc
		want  string
		asked int
	}{
		{"three", map[string]http.HandlerFunc{google: to("https://a.example/"), "a.example/": to("/b"), "a.example/b": to("https://c.example/"), "c.example/": page(good)}, "", 4},
		{"round and round", map[string]http.HandlerFunc{google: to("https://" + google)}, "more than 3 redirects", 4},
		{"to what isn't encrypted", map[string]http.HandlerFunc{google: to("http://a.example/"), "a.example/": page(good)}, "nothing is encrypted", 1},
		{"to this machine", map[string]http.HandlerFunc{google: to("http://127.0.0.1/"), "127.0.0.1/": page(good)}, "nothing is encrypted", 1},
		{"to a file", map[string]http.HandlerFunc{google: to("file:///etc/passwd")}, "nothing is encrypted", 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, list("googlebot", false, google))
			for url, p := range tt.pages {
				r.serve(url, p)
			}
			r.start()
			r.pass(within)
			s, n := r.stored("googlebot"), 0
			for url := range r.asked {
				n += len(r.times(url))
			}
			if n != tt.asked || (s.Failing == nil) != (tt.want == "") || s.Failing != nil && !strings.Contains(s.Failing.Err, tt.want) || r.plain > 0 {
				t.Errorf("%s: asked %d times, %+v", tt.name, n, s.Failing)
			}
			r.stop()
		})
	}
}
