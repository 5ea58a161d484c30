package refresh

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/internal/lists"
)

const (
	google = "google.example/list.json"
	within = firstAfter + firstSpread // by when a list is fetched first
)

// A list is fetched within ten minutes, and then once an interval; one that is the
// same is not sent again.
func TestGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("googlebot", false, google))
		ranges := more(builtIn("googlebot"), "20.0.0.0/27")
		sent := 0
		same := tagged(`"1"`, text(ranges))
		r.serve(google, func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("If-None-Match") == "" {
				sent++
			}
			same(w, req)
		})
		r.start()
		if n := r.changes(); n != 1 {
			t.Errorf("at the start it changes %d times, want once", n)
		}
		r.pass(firstAfter - time.Second)
		if n := len(r.times(google)); n != 0 {
			t.Errorf("asked %d times at once", n)
		}
		r.pass(within)
		if p := r.inUse("googlebot"); !p.Fetched || !slices.Equal(p.Prefixes, lists.Tidy(ranges)) || p.Date != lists.Day(time.Now()) {
			t.Errorf("in use are %+v", p)
		}
		if n := r.changes(); n != 1 {
			t.Errorf("it changes %d times, want once", n)
		}
		r.said(1, "published ranges have changed")
		last := r.times(google)[0]
		r.pass(30 * every)
		if sent != 1 {
			t.Errorf("the same is sent %d times", sent)
		}
		all := r.times(google)
		if n := len(all); n < 27 || n > 34 {
			t.Errorf("asked %d times in 30 days", n)
		}
		for _, at := range all {
			if gap := at.Sub(last); gap < every-every/10 || gap > every+every/10+time.Second {
				t.Errorf("asked again after %v", gap)
			}
			last = at
		}
		if p := r.inUse("googlebot"); p.Date < lists.Day(time.Now().Add(-2*every)) {
			t.Errorf("as of %s, and it was looked at since", p.Date)
		}
		if n := r.changes(); n != 0 {
			t.Errorf("it changes %d times by what is the same", n)
		}
		r.serve(google, tagged(`"2"`, text(builtIn("googlebot")[1:])))
		r.pass(2 * every)
		if p := r.inUse("googlebot"); len(p.Prefixes) != len(builtIn("googlebot"))-1 {
			t.Errorf("%d in use", len(p.Prefixes))
		}
		r.stop()
		r.said(0, "level=WARN")
		if r.plain > 0 {
			t.Errorf("%d connections were not encrypted", r.plain)
		}
	})
}

// A failure leaves what was fetched before.
func TestLastGoodStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("googlebot", false, google))
		ranges := lists.Tidy(more(builtIn("googlebot"), "20.0.0.0/27"))
		r.serve(google, page(text(ranges)))
		r.start()
		r.pass(within)
		r.serve(google, page("0.0.0.0/0\n"))
		r.pass(5 * every)
		if p := r.inUse("googlebot"); !slices.Equal(p.Prefixes, ranges) {
			t.Errorf("in use are %v", p.Prefixes)
		}
		r.stop()
	})
}

// A change that is too large waits until it is accepted, or over.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("googlebot", false, google))
		poisoned := more(builtIn("googlebot"), "90.0.0.0/9")
		r.serve(google, tagged(`"1"`, text(poisoned)))
		r.start()
		r.changes()
		r.pass(within)
		s := r.stored("googlebot")
		if s.Waiting == nil || !strings.Contains(s.Waiting.Why, "more than half") || r.inUse("googlebot").Fetched {
			t.Fatalf("%+v", s)
		}
		if n := r.changes(); n != 1 {
			t.Errorf("%d changes, want one, of what is to be known of it", n)
		}
		r.pass(5 * every)
		r.said(1, "wait for an administrator")
		if got := fmt.Sprint(r.waits); got != "[googlebot:  googlebot: "+s.Waiting.Why+"]" {
			t.Errorf("told: %s", got)
		}
		st := r.Status()[0]
		if len(st.Pending.Added) != 1 || st.Pending.Added[0].String() != "90.0.0.0/9" || st.Stored.Waiting.ID != s.Waiting.ID || st.InUse.Fetched {
			t.Errorf("status: %+v", st)
		}
		for _, tt := range []struct {
			name, id string
			want     error
		}{{"bingbot", "", ErrUnknown}, {"googlebot", "12345678", ErrOther}, {"googlebot", s.Waiting.ID, nil}, {"googlebot", "", ErrNothing}} {
			if _, err := r.Accept(tt.name, tt.id); !errors.Is(err, tt.want) {
				t.Errorf("accepting %s %q: %v, want %v", tt.name, tt.id, err, tt.want)
			}
		}
		if p := r.inUse("googlebot"); !slices.Equal(p.Prefixes, lists.Tidy(poisoned)) {
			t.Errorf("accepted, and in use are %v", p.Prefixes)
		}
		// From then on that is what others are compared with.
		r.serve(google, page(text(builtIn("googlebot"))))
		r.pass(2 * every)
		if s := r.stored("googlebot"); s.Waiting == nil || len(r.inUse("googlebot").Prefixes) != len(lists.Tidy(poisoned)) {
			t.Errorf("the /9 is gone without a word: %+v", s.Waiting)
		}
		r.serve(google, page(text(poisoned)))
		r.pass(2 * every)
		r.said(1, "don't wait any more")
		r.stop()
	})
}

// What waits, and what was accepted, survives a restart, and asks nobody sooner.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("googlebot", false, google))
		r.serve(google, tagged(`"1"`, text(more(builtIn("googlebot"), "90.0.0.0/9"))))
		r.start()
		r.pass(within)
		first := r.times(google)
		for range 20 {
			r.stop()
			r.start()
			r.pass(within)
		}
		if n := len(r.times(google)); len(first) != 1 || n != 0 {
			t.Errorf("asked %d times, and %d times more by restarts", len(first), n)
		}
		if _, err := r.Accept("googlebot", ""); err != nil {
			t.Error(err)
		}
		r.stop()
		r.pass(10 * every) // off for long
		r.start()
		if p := r.inUse("googlebot"); !p.Fetched {
			t.Error("after the restart it isn't in use")
		}
		r.pass(firstAfter - time.Second)
		if n := len(r.times(google)); n != 0 {
			t.Errorf("asked %d times at once", n)
		}
		r.pass(within)
		if n := len(r.times(google)); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
		r.said(1, "wait for an administrator") // not again by a restart

		// Other sources: what the ones before gave is compared no more.
		r.stop()
		r.options.Lists = []List{list("googlebot", false, "mirror.example/x")}
		r.serve("mirror.example/x", func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("If-None-Match") != "" {
				t.Error("the tag of another server is sent")
			}
			w.Write([]byte(text(more(builtIn("googlebot"), "90.0.0.0/9", "20.0.0.0/27"))))
		})
		r.start()
		r.pass(within)
		if p := r.inUse("googlebot"); len(p.Prefixes) != len(builtIn("googlebot"))+2 {
			t.Errorf("from the mirror, %d in use", len(p.Prefixes))
		}
		r.stop()
	})
}

// A file that is damaged is replaced by the next fetch.
func TestDamagedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("googlebot", false, google))
		r.serve(google, page(text(builtIn("googlebot"))))
		path := filepath.Join(r.dir, lists.Dir, "googlebot.json")
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.pass(within)
		if !r.inUse("googlebot").Fetched {
			t.Error("it isn't in use")
		}
		r.stop()
	})
}

// Proxies: fewer are used, more wait, whatever their number.
func TestStrict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("fastly", true, google))
		r.serve(google, page(text(more(builtIn("fastly"), "20.0.0.1/32"))))
		r.start()
		r.pass(within)
		s := r.stored("fastly")
		if s.Waiting == nil || r.inUse("fastly").Fetched {
			t.Fatalf("%+v", s)
		}
		built, _ := lists.Lookup("fastly")
		if got := fmt.Sprint(s.Added(built, built)); got != "[20.0.0.1/32]" {
			t.Errorf("%s may be spared", got)
		}
		// It comes out of trusted_proxies, and back into it, with nothing fetched.
		for _, strict := range []bool{false, true} {
			r.stop()
			r.options.Lists[0].Strict = strict
			r.start()
			if s := r.stored("fastly"); (s.Waiting != nil) != strict || r.inUse("fastly").Fetched == strict {
				t.Errorf("strict %v: %+v", strict, s)
			}
		}
		r.serve(google, page(text(builtIn("fastly")[1:])))
		r.pass(2 * every)
		if p := r.inUse("fastly"); len(p.Prefixes) != len(built.Prefixes)-1 {
			t.Errorf("%d in use", len(p.Prefixes))
		}
		r.stop()
	})
}

// The sources of a list go together: all or none.
func TestSeveralSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const v4, v6 = "cloudflare.example/v4", "cloudflare.example/v6"
		r := newRig(t, list("cloudflare", false, v4, v6))
		all := builtIn("cloudflare")
		six := slices.IndexFunc(all, func(p netip.Prefix) bool { return p.Addr().Is6() })
		r.serve(v4, tagged(`"4"`, text(more(all[:six], "20.0.0.0/24"))))
		r.start()
		r.pass(within)
		if s := r.stored("cloudflare"); s.Failing == nil || s.Latest != nil || r.inUse("cloudflare").Fetched {
			t.Errorf("one fails, and %+v", s)
		}
		r.serve(v6, tagged(`"6"`, text(all[six:])))
		r.pass(every)
		if p := r.inUse("cloudflare"); len(p.Prefixes) != len(all)+1 {
			t.Errorf("%d in use", len(p.Prefixes))
		}
		// One is the same, and one isn't.
		r.serve(v6, tagged(`"7"`, text(more(all[six:], "2400:1::/48"))))
		r.pass(2 * every)
		if p := r.inUse("cloudflare"); len(p.Prefixes) != len(all)+2 {
			t.Errorf("%d in use", len(p.Prefixes))
		}
		r.serve(v4, nil)
		r.serve(v6, tagged(`"8"`, text(all[six:])))
		r.pass(2 * every)
		if p := r.inUse("cloudflare"); len(p.Prefixes) != len(all)+2 {
			t.Errorf("one fails, and %d are in use", len(p.Prefixes))
		}
		r.stop()
	})
}

// A publisher that has no tags, but the time of the last change.
func TestLastModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const since = "Mon, 02 Nov 2026 00:00:00 GMT"
		r := newRig(t, list("googlebot", false, google))
		asked := map[string]int{}
		r.serve(google, func(w http.ResponseWriter, req *http.Request) {
			asked[req.Header.Get("If-Modified-Since")]++
			w.Header().Set("Last-Modified", since)
			if req.Header.Get("If-Modified-Since") == since {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Write([]byte(text(builtIn("googlebot"))))
		})
		r.start()
		r.pass(5 * every)
		r.stop()
		if asked[""] != 1 || asked[since] < 3 || !r.inUse("googlebot").Fetched {
			t.Errorf("asked %v", asked)
		}
	})
}

// All lists at the worst: one request at a time, and each attempt a quarter of an
// hour from the one before.
func TestNeverMoreThanStated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []List
		for i, name := range lists.Names() {
			all = append(all, list(name, i%2 == 0, name+".example/1", name+".example/2"))
		}
		r := newRig(t, all...)
		for i, l := range all {
			switch i % 3 {
			case 0: // slow, and good
				r.serve(l.Name+".example/1", func(w http.ResponseWriter, _ *http.Request) {
					<-time.After(20 * time.Second)
					w.Write([]byte(text(builtIn(l.Name))))
				})
				r.serve(l.Name+".example/2", page(text(builtIn(l.Name))))
			case 1:
				r.serve(l.Name+".example/1", func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
			}
		}
		r.start()
		r.pass(10 * every)
		r.stop()
		if r.atOnce != 1 {
			t.Errorf("%d requests at a time", r.atOnce)
		}
		for i, l := range all {
			times := r.times(l.Name + ".example/1")
			least, most := Retry, 20
			if i%3 == 0 {
				least, most = every-every/10, 12
			}
			for j := range times[1:] {
				if gap := times[j+1].Sub(times[j]); gap < least {
					t.Errorf("%s is asked again after %v", l.Name, gap)
				}
			}
			if n := len(times); n < 5 || n > most {
				t.Errorf("%s is asked %d times in 10 days, want %d at most", l.Name, n, most)
			}
		}
	})
}

// A server that hangs doesn't hold up the end.
func TestStopDuringAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("googlebot", false, google))
		r.serve(google, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		r.options.First = time.Second
		r.start()
		r.pass(2 * time.Second)
		before := time.Now()
		r.stop()
		if took := time.Since(before); took != 0 {
			t.Errorf("stopping took %v", took)
		}
		if s := r.stored("googlebot"); s.Failing != nil {
			t.Errorf("that is taken for %+v", s.Failing)
		}
	})
}

// What can't be stored isn't used, as nobody else would know; nor is it asked for
// sooner again.
func TestNothingCanBeStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, list("googlebot", false, google))
		r.serve(google, page(text(builtIn("googlebot")[1:])))
		r.dir = filepath.Join(r.dir, "not-there")
		r.start()
		r.changes()
		r.pass(every)
		if n := r.changes(); n != 0 {
			t.Errorf("%d changes", n)
		}
		st := r.Status()[0]
		if f := st.Stored.Failing; f == nil || !strings.Contains(f.Err, "can't be stored") || st.InUse.Fetched {
			t.Errorf("%+v", st)
		}
		times := r.times(google)
		for i := range times[1:] {
			if gap := times[i+1].Sub(times[i]); gap < Retry {
				t.Errorf("asked again after %v", gap)
			}
		}
		r.said(1, "published ranges can't be stored: those from before stay")
		r.said(0, "can be fetched again")
		if err := os.Mkdir(r.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		r.pass(2 * every)
		if !r.inUse("googlebot").Fetched {
			t.Error("when it can be, it isn't used")
		}
		r.said(1, "can be fetched again")
		r.stop()
	})
}

func TestNoLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		r.pass(every)
		r.stop()
		if r.Status() == nil || len(r.Status()) > 0 {
			t.Errorf("%v", r.Status())
		}
	})
}
