package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/source"
)

// figures are the values of a scrape, by series as they are written.
type figures map[string]float64

// scrape asks for the metrics at an address, or a socket if it is the path of one.
func scrape(address string) (figures, error) {
	network, host := "tcp", address
	if filepath.IsAbs(address) {
		network, host = "unix", "tailban"
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
	r, err := (&http.Client{Transport: transport, Timeout: patience}).Get("http://" + host + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", r.Status, text)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(string(text))); err != nil {
		return nil, err
	}
	f := figures{}
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSpace(l)
		if i := strings.LastIndexByte(l, ' '); l[0] != '#' {
			f[l[:i]], err = strconv.ParseFloat(l[i+1:], 64)
			if err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// freeAddress is one that nobody listens at just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

// waitScraped scrapes until the figures are as they should be.
func waitScraped(t *testing.T, address, what string, ok func(figures) bool) {
	t.Helper()
	var last figures
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the last scrape: %v, %v", last, err)
		}
	}()
	wait(t, what, func() bool {
		last, err = scrape(address)
		return err == nil && ok(last)
	})
}

// A daemon is scraped, bans, and is scraped again.
func TestMetricsCount(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	address := freeAddress(t)
	l := newLive(t, s, fmt.Sprintf("metrics = %q\n", address)+s.config(enforced), func(o *Options) { o.Version = "1.2.3" })
	waitScraped(t, address, "the first scrape", func(f figures) bool {
		return f["tailban_healthy"] == 1 && f["tailban_engine_answered"] == 1 && f[`tailban_jail_mode{jail="web",mode="enforce"}`] == 1 && f["tailban_bans"] == 0
	})
	before, err := scrape(address)
	check(t, err)
	s.requests("203.0.113.1", 5)
	s.requests("127.0.0.1", 3)
	s.write("garbage\n")
	l.counted(9)
	wait(t, "the firewall", func() bool { return l.firewall.holds("203.0.113.1/32") })
	for series, want := range map[string]float64{
		`tailban_log_lines_total{log="site"}`:                                  9,
		`tailban_log_step_lines_total{log="site",step="counted"}`:              6,
		`tailban_log_step_lines_total{log="site",step="already banned"}`:       2,
		`tailban_log_step_lines_total{log="site",step="unparsed"}`:             1,
		`tailban_jail_decisions_total{jail="web"}`:                             2,
		`tailban_jail_refused_decisions_total{jail="web"}`:                     1,
		`tailban_jail_bans{jail="web"}`:                                        1,
		`tailban_bans`:                                                         1,
		`tailban_action_desired_bans{action="firewall"}`:                       1,
		`tailban_budget_used{budget="bans",unit="targets"}`:                    1,
		`tailban_action_drift_repairs_total{action="firewall",repair="added"}`: 0,
	} {
		if v, there := before[series]; !there || v != 0 {
			t.Errorf("%s was %v, %v", series, v, there)
		}
		waitScraped(t, address, series, func(f figures) bool { return f[series] == want })
	}
	waitScraped(t, address, "all to be stored", func(f figures) bool {
		return f["tailban_state_commits_total"] > 0 && f["tailban_state_pending_records"] == 0 && f["tailban_state_failing"] == 0
	})
	f, err := scrape(address)
	check(t, err)
	if f[`tailban_log_last_line_timestamp_seconds{log="site"}`] < f["tailban_start_time_seconds"] || f["process_open_fds"] < 3 || f["process_resident_memory_bytes"] < 1<<20 ||
		f["process_cpu_seconds_total"] <= 0 || f["process_max_fds"] < f["process_open_fds"] {
		t.Errorf("scraped: %v", f)
	}
	for series := range f {
		if strings.Contains(series, "203.0.113") || strings.Contains(series, s.log) {
			t.Errorf("%s names a client or a file", series)
		}
	}
	if !isDown(address, l.stop) {
		t.Error("it listens still")
	}
}

// isDown reports whether nobody listens after something was done.
func isDown(address string, do func()) bool {
	do()
	conn, err := net.Dial("tcp", address)
	if err == nil {
		conn.Close()
	}
	return err != nil
}

// Where metrics are served changes with a reload, and nothing else does.
func TestReloadOfMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	socket := filepath.Join(s.runtime(), control.StatusSocket)
	first, second := freeAddress(t), freeAddress(t)
	l := newLive(t, s, s.config(enforced), nil)
	if _, err := scrape(socket); err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), `metrics = \"socket\"`) {
		t.Errorf("they are at the socket unasked: %v", err)
	}
	if !isDown(first, func() {}) {
		t.Error("somebody listens")
	}
	use := func(where, change string) {
		t.Helper()
		got := l.reloaded(fmt.Sprintf("metrics = %q\n", where) + s.config(enforced))
		if len(got.Changes) != 1 || got.Changes[0] != "metrics "+change || len(got.Restart) > 0 {
			t.Errorf("changes %q, %q", got.Changes, got.Restart)
		}
	}
	healthy := func(f figures) bool { return f["tailban_healthy"] == 1 }
	use(first, "none → "+first)
	waitScraped(t, first, "the first address", healthy)
	use(second, first+" → "+second)
	waitScraped(t, second, "the second address", healthy)
	if !isDown(first, func() {}) {
		t.Error("the first address is still listened at")
	}
	use("socket", second+" → socket")
	waitScraped(t, socket, "the socket", healthy)
	waitScraped(t, filepath.Join(s.runtime(), control.ControlSocket), "the other socket", healthy)
	if !isDown(second, func() {}) {
		t.Error("the second address is still listened at")
	}

	l.rewrite(strings.Replace(s.config(enforced), "limit = 2", "limits = 2", 1))
	_, err := l.client.Reload(t.Context())
	refusedAs(t, err, control.CodeConfig, "nothing has changed")
	waitScraped(t, socket, "the refusal", func(f figures) bool {
		return f["tailban_config_refused_timestamp_seconds"] > f["tailban_config_loaded_timestamp_seconds"]
	})
	l.reloaded(s.config(enforced))
	if st := l.status(); !st.Config.Refused.IsZero() {
		t.Errorf("refused at %v", st.Config.Refused)
	}
	if _, err := scrape(socket); err == nil {
		t.Error("they are still at the socket")
	}
	l.stop()
}

// A port that another program has keeps the daemon from nothing but metrics.
func TestMetricsPortInUse(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer other.Close()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, fmt.Sprintf("metrics = %q\n", other.Addr())+s.config(enforced), nil)
	wait(t, "the warning", func() bool { return len(l.journal.said("metrics can't be scraped, trying again until they can")) == 1 })
	ofMetrics := func() []control.Problem {
		return slices.DeleteFunc(l.status().Problems, func(p control.Problem) bool { return p.Where != "metrics" })
	}
	wait(t, "the status to say so", func() bool {
		p := ofMetrics()
		return len(p) == 1 && p[0].Kind == "failing" && strings.Contains(p[0].Text, "address already in use") && !p[0].Since.IsZero()
	})
	l.bannedBy("203.0.113.1", "banned")
	address := freeAddress(t)
	l.reloaded(fmt.Sprintf("metrics = %q\n", address) + s.config(enforced))
	waitScraped(t, address, "another address", func(f figures) bool { return f["tailban_bans"] == 1 })
	if p := ofMetrics(); len(p) != 0 {
		t.Errorf("with another address: %v", p)
	}
	l.stop()
}

// An engine that hangs doesn't hang a scrape, which tells of it.
func TestMetricsOfAHungEngine(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	address := freeAddress(t)
	l := newLive(t, s, fmt.Sprintf("metrics = %q\n", address)+s.config(enforced), nil)
	waitScraped(t, address, "the first scrape", func(f figures) bool { return f["tailban_engine_answered"] == 1 })
	hangs, release := make(chan struct{}), make(chan struct{})
	go func() {
		_ = l.d.ask(context.Background(), func(*engine, time.Time) { close(hangs); <-release })
	}()
	<-hangs
	begun := time.Now()
	waitScraped(t, address, "the hang to be told of", func(f figures) bool {
		_, told := f["tailban_bans"]
		return f["tailban_engine_answered"] == 0 && !told && f["tailban_engine_wait_seconds"] >= 1
	})
	if took := time.Since(begun); took > 9*time.Second {
		t.Errorf("that took %v, more than Prometheus waits", took)
	}
	close(release)
	waitScraped(t, address, "it to go on", func(f figures) bool { return f["tailban_engine_answered"] == 1 })
	l.stop()
}

// stuck is what reads a log from a disk that hangs.
type stuck struct {
	source.Source
	asked   atomic.Int64
	release chan struct{}
}

func (s *stuck) Stats() source.FilesStats {
	s.asked.Add(1)
	<-s.release
	return source.FilesStats{}
}

// A disk that hangs under a log holds up neither scrapes nor those who look at the
// status; however often they do, no more than one of them is left with it.
func TestMetricsOfAHungDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	address := freeAddress(t)
	l := newLive(t, s, fmt.Sprintf("metrics = %q\n", address)+s.config(enforced), nil)
	disk := &stuck{release: make(chan struct{})}
	l.d.mu.Lock()
	was := l.d.logs["site"]
	l.d.logs["site"] = &reading{part: was.part, source: disk, began: was.began.Add(-youngFor), asking: make(chan struct{}, 1)}
	l.d.mu.Unlock()
	for range 3 {
		waitScraped(t, address, "the disk to be told of", func(f figures) bool {
			_, read := f[`tailban_log_bytes_total{log="site"}`]
			return !read && f["tailban_engine_answered"] == 1 && f[`tailban_log_failing{log="site"}`] == 1 && f[`tailban_problems{kind="failing"}`] == 1
		})
		if p := problem(l.status(), "failing"); p != "the files don't answer: does the disk hang?" {
			t.Errorf("the status says %q", p)
		}
		if p := problem(l.status(), "blind"); p != "its files don't answer, so it is not known to be read" {
			t.Errorf("the status says %q", p)
		}
	}
	if n := disk.asked.Load(); n != 1 {
		t.Errorf("%d hang", n)
	}
	close(disk.release)
	waitScraped(t, address, "it to come back", func(f figures) bool { return f[`tailban_log_failing{log="site"}`] == 0 })
	l.stop()
}
