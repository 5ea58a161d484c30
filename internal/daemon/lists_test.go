package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/lists"
)

// publisher serves the ranges of googlebot.
type publisher struct {
	*httptest.Server
	mu    sync.Mutex
	text  string
	asked int
	hangs chan struct{} // if it is there, answers wait for its end
}

func newPublisher(t *testing.T, more ...string) *publisher {
	p := &publisher{}
	p.publish(more...)
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// publish has the ranges that are built in published, and more.
func (p *publisher) publish(more ...string) {
	built, _ := lists.Lookup("googlebot")
	var b strings.Builder
	for _, x := range built.Prefixes {
		fmt.Fprintln(&b, x)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = b.String() + strings.Join(more, "\n")
}

func (p *publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked++
	text, hangs := p.text, p.hangs
	p.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	}
	fmt.Fprint(w, text)
}

func (p *publisher) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// refreshed is a site's configuration with lists that are refreshed.
func refreshed(s *siteFiles, url, top, more string) string {
	return top + "\n" + s.config(strings.TrimPrefix(logOnly, "\n")) + more +
		fmt.Sprintf("\n[lists]\nrefresh = \"1d\"\n[lists.googlebot]\nsource = %q\n", url+"/list")
}

// soon has the first fetch begin at once.
func soon(ctx context.Context, o Options) error {
	o.FetchFirst = time.Millisecond
	return Run(ctx, o)
}

// fetching starts a daemon with ranges that are fetched; the server hangs until
// p.hangs is closed.
func fetching(t *testing.T) (s *siteFiles, p *publisher, r *reloadable, text string) {
	t.Helper()
	s = newSite(t, t.TempDir())
	p = newPublisher(t, "20.0.0.0/27")
	p.hangs = make(chan struct{})
	text = refreshed(s, p.URL, `allow = ["googlebot"]`, "")
	r = startReloadable(t, s, text, soon)
	wait(t, "the fetch", func() bool { return p.requests() > 0 })
	return s, p, r, text
}

// Ranges that are fetched are in use at once: a ban of an address that is allowed
// now is lifted, and what was counted of others isn't lost. The next start, check
// and replay know them.
func TestFetchedRangesAreUsed(t *testing.T) {
	t.Parallel()
	s, p, r, text := fetching(t)
	// The server hangs, and nobody waits for it.
	s.requests("20.0.0.1", 3)
	s.requests("20.0.1.1", 2)
	r.waitBanned("20.0.0.1")
	if _, err := r.client.Reload(t.Context()); err != nil {
		t.Errorf("a reload meanwhile: %v", err)
	}
	st, err := r.client.Status(t.Context())
	check(t, err)
	if l := st.Lists; len(l) != 1 || l[0].Fetched || l[0].Name != "googlebot" || l[0].Sources[0] != p.URL+"/list" {
		t.Errorf("lists: %+v", l)
	}
	close(p.hangs)
	wait(t, "the ban to be lifted", func() bool {
		return len(r.journal.said("ban lifted: its target is protected now", "target", "20.0.0.1/32")) == 1
	})
	s.requests("20.0.1.1", 1) // the third
	r.waitBanned("20.0.1.1")
	s.requests("20.0.0.1", 9)
	st, err = r.client.Status(t.Context())
	check(t, err)
	if l := st.Lists[0]; !l.Fetched || l.Waiting != nil || l.Err != "" || l.Checked.IsZero() || l.Next.Before(st.Now) || !st.Healthy {
		t.Errorf("lists: %+v; problems: %+v", l, st.Problems)
	}
	r.stop()
	r.journal.want(t, 1, "banned", "client", "20.0.0.1")
	r.journal.want(t, 1, "banned", "client", "20.0.1.1")

	c := parse(t, text)
	if x := c.Providers[0]; !x.Fetched || x.Snapshot != lists.Day(time.Now()) {
		t.Errorf("check and replay have ranges of %s, fetched: %v", x.Snapshot, x.Fetched)
	}
	n := p.requests()
	r.running = s.run(text) // as it always starts
	s.requests("20.0.0.1", 9)
	s.requests("20.0.2.1", 3)
	r.waitBanned("20.0.2.1")
	r.stop()
	r.journal.want(t, 0, "banned", "client", "20.0.0.1")
	if m := p.requests(); m != n {
		t.Errorf("a restart asks %d times", m-n)
	}
	// Without refresh, what was fetched counts for nothing.
	if x := parse(t, strings.Replace(text, "refresh = \"1d\"", "", 1)).Providers[0]; x.Fetched {
		t.Error("without refresh, fetched ranges are used")
	}
}

// A disk that hangs while a list is stored holds up neither the status nor a reload.
func TestListOnAHungDisk(t *testing.T) {
	t.Parallel()
	_, p, r, text := fetching(t)
	thaw := freeze(t, filepath.Join(parse(t, text).StateDir, lists.Dir))
	close(p.hangs)
	wait(t, "the list to be stored", func() bool { return isIn("(*Refresher).refresh", "wholefile.Write") })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	st, err := r.client.Status(ctx)
	check(t, err)
	if l := st.Lists; len(l) != 1 || l[0].Fetched {
		t.Errorf("lists: %+v", l)
	}
	_, err = r.client.Reload(ctx)
	check(t, err)
	thaw()
	r.stop()
}

// isIn reports whether a goroutine is in a function that another has called.
func isIn(caller, function string) bool {
	stacks := make([]byte, 16<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, caller) && strings.Contains(stack, function) {
			return true
		}
	}
	return false
}

// The daemon ends while a server hangs.
func TestStopWhileAServerHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	p := newPublisher(t)
	p.hangs = make(chan struct{})
	r := s.start(refreshed(s, p.URL, `allow = ["googlebot"]`, ""), soon)
	wait(t, "the fetch", func() bool { return p.requests() > 0 })
	r.stop()
	r.journal.want(t, 0, "going on without what hangs")
}

// Ranges that are too many wait, are told, and are used when they are accepted.
func TestAcceptList(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	p := newPublisher(t, "20.0.0.0/9")
	text := refreshed(s, p.URL, `allow = ["googlebot"]`, "")
	r := startReloadable(t, s, text, soon)
	events, err := r.client.Follow(t.Context())
	check(t, err)
	wait(t, "the ranges to wait", func() bool {
		return len(r.journal.said("published ranges wait for an administrator: tailban lists shows them, tailban lists accept uses them")) == 1
	})
	s.requests("20.0.0.1", 3)
	r.waitBanned("20.0.0.1")
	st, err := r.client.Status(t.Context())
	check(t, err)
	l := st.Lists[0]
	if st.Healthy || len(st.Problems) != 1 || st.Problems[0].Kind != "waiting" || st.Problems[0].Where != "list googlebot" ||
		!strings.Contains(st.Problems[0].Text, "tailban lists accept googlebot") {
		t.Errorf("problems: %+v", st.Problems)
	}
	if l.Waiting == nil || l.Waiting.Added != 1 || fmt.Sprint(l.Waiting.Widest) != "[20.0.0.0/9]" || l.Fetched {
		t.Fatalf("%+v, %+v", l, l.Waiting)
	}
	accept := func(name, id string) (*control.AcceptListResult, error) {
		return r.client.AcceptList(t.Context(), control.AcceptListRequest{Name: name, ID: id, Reason: "announced"})
	}
	_, err = accept("bingbot", "")
	refusedAs(t, err, control.CodeNotFound, `"bingbot" is no list that is refreshed`)
	_, err = accept("googlebot", "00000000")
	refusedAs(t, err, control.CodeRefused, "other ranges wait than those: they have the id "+l.Waiting.ID)
	got, err := accept("googlebot", l.Waiting.ID)
	check(t, err)
	if got.Added != 1 || got.Removed != 0 || len(got.Notes) != 0 {
		t.Errorf("accepted: %+v", got)
	}
	// It is in use when the answer comes.
	wait(t, "the ban to be lifted", func() bool {
		return len(r.journal.said("ban lifted: its target is protected now", "target", "20.0.0.1/32")) == 1
	})
	_, err = accept("googlebot", "")
	refusedAs(t, err, control.CodeNotFound, "nothing of googlebot waits")
	if st, err = r.client.Status(t.Context()); err != nil || !st.Healthy || !st.Lists[0].Fetched {
		t.Errorf("%+v, %v", st.Problems, err)
	}
	seen := map[string]string{}
	for seen["accept"] == "" {
		e, ok := <-events
		if !ok {
			t.Fatalf("no more events behind %v", seen)
		}
		seen[e.Kind] = e.Reason
	}
	if seen["accept"] != "list googlebot: announced" || seen["recover"] != "list googlebot: no ranges wait any more" {
		t.Errorf("events: %v", seen)
	}
	r.stop()
	r.journal.want(t, 1, "published ranges accepted", "list", "googlebot", "reason", "announced")
	r.journal.want(t, 1, "control", "verb", "accept-list", "outcome", "done", "id", l.Waiting.ID)
}

// What is published of a proxy more than before is not believed, and not banned.
func TestMoreProxiesWait(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	p := newPublisher(t, "20.0.0.0/27")
	r := startReloadable(t, s, refreshed(s, p.URL, `trusted_proxies = ["googlebot"]`, ""), soon)
	wait(t, "the ranges to wait, and to be spared", func() bool {
		return len(r.journal.said("published ranges wait for an administrator: tailban lists shows them, tailban lists accept uses them")) == 1
	})
	spared := func() bool {
		x, err := r.client.Explain(t.Context(), netip.MustParseAddr("20.0.0.1"))
		return err == nil && x.Protected == "range of a trusted proxy that waits for tailban lists accept"
	}
	wait(t, "the new address to be spared", spared)
	s.requests("20.0.0.1", 9)
	s.requests("20.0.1.1", 3)
	r.waitBanned("20.0.1.1")
	r.journal.want(t, 0, "banned", "client", "20.0.0.1")
	if _, err := r.client.AcceptList(t.Context(), control.AcceptListRequest{Name: "googlebot"}); err != nil {
		t.Fatal(err)
	}
	x, err := r.client.Explain(t.Context(), netip.MustParseAddr("20.0.0.1"))
	check(t, err)
	if x.Protected != "trusted proxy" {
		t.Errorf("accepted, it is protected as %q", x.Protected)
	}
	r.stop()
}

// The file is being edited while new ranges come: what runs goes on, with them. The
// next reload reads it.
func TestNewRangesDontReadTheFile(t *testing.T) {
	t.Parallel()
	s, p, r, text := fetching(t)
	r.rewrite("half a")
	s.requests("20.0.0.1", 3)
	r.waitBanned("20.0.0.1")
	close(p.hangs)
	wait(t, "the ban to be lifted", func() bool {
		return len(r.journal.said("ban lifted: its target is protected now", "target", "20.0.0.1/32")) == 1
	})
	st, err := r.client.Status(t.Context())
	check(t, err)
	if !st.Healthy {
		t.Errorf("problems: %+v", st.Problems)
	}
	r.rewrite(strings.Replace(text, "[lists]\nrefresh = \"1d\"", "", 1))
	var got *control.ReloadResult
	wait(t, "the new ranges to be taken up", func() bool {
		got, err = r.client.Reload(t.Context())
		var e *control.Error
		return !errors.As(err, &e) || e.Code != control.CodeBusy
	})
	check(t, err)
	if len(got.Changes) != 2 { // allow, and lists
		t.Errorf("changes: %q", got.Changes)
	}
	if st, err = r.client.Status(t.Context()); err != nil || len(st.Lists) != 0 {
		t.Errorf("without refresh: %+v, %v", st.Lists, err)
	}
	_, err = r.client.AcceptList(t.Context(), control.AcceptListRequest{Name: "googlebot"})
	refusedAs(t, err, control.CodeRefused, "no list is refreshed")
	r.stop()
}

// A file that is damaged is said, and what is built in is used.
func TestDamagedList(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	path := filepath.Join(s.state, lists.Dir, "googlebot.json")
	check(t, os.MkdirAll(filepath.Dir(path), 0o700))
	check(t, os.WriteFile(path, []byte("tailban-list-1 00\n{}\n"), 0o600))
	p := newPublisher(t)
	c := parse(t, refreshed(s, p.URL, `allow = ["googlebot"]`, ""))
	said := ""
	for _, w := range c.Warnings() {
		said += w.String() + "\n"
	}
	if !strings.Contains(said, "what was fetched of googlebot can't be used, so its ranges are those built in, as of ") || !strings.Contains(said, path+": it is damaged") {
		t.Errorf("warnings: %s", said)
	}
	if x := c.Providers[0]; x.Fetched || len(x.Prefixes) == 0 {
		t.Errorf("in use: %+v", x)
	}
}
