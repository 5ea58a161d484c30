package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/syncbuf"
)

// stopAfter interrupts a command when it has written so many lines.
type stopAfter struct {
	syncbuf.Buffer
	lines int
	stop  func()
}

func (s *stopAfter) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Count(s.String(), "\n") >= s.lines {
		s.stop()
	}
	return n, err
}

// followUntil runs events until it has written so many lines.
func followUntil(t *testing.T, d *fakeDaemon, lines int, args ...string) (out, errs string, code int) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := &stopAfter{lines: lines, stop: stop}
	var e syncbuf.Buffer
	code = Main(ctx, Process{Args: append([]string{"events", "--socket-dir", serve(t, d)}, args...), Out: w, Err: &e})
	return w.String(), e.String(), code
}

func TestEvents(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"events": nil, "events_json": {"--json"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFake()
			d.stay = true
			out, errs, code := followUntil(t, d, len(d.events), args...)
			if code != exitOK || errs != "" {
				t.Errorf("after an interrupt: exit code %d, %q", code, errs)
			}
			checkHarmless(t, out)
			golden(t, name, out)
		})
	}
}

// An end that nobody asked for is an error, with the last event and words.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	d := newFake()
	d.events = d.events[:1]
	out, errs, code := followUntil(t, d, 99, "--json")
	if code != exitError || !strings.HasPrefix(errs, "tailban: events end here: ") {
		t.Errorf("exit code %d, %q", code, errs)
	}
	if !strings.Contains(out, `"kind":"lost"`) {
		t.Errorf("no last event in\n%s", out)
	}
}

// Without a daemon a line is explained by the configuration alone, if there
// is somebody to do it.
func TestExplainLineOffline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "jails.toml")
	text := "[logs.shop]\nfiles = \"/srv/shop.log\"\nformat = \"combined\"\n\n[jails.web]\nlimit = 1\nwindow = \"1s\"\nban = \"1h\"\nmode = \"observe\"\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	asked := ""
	offline := func(c *config.Config, q control.LineQuery) (*control.LineExplanation, error) {
		if q.Line == "bad" {
			return nil, errors.New("the configuration has no such log")
		}
		asked = fmt.Sprint(c.Logs[0].Name, " ", q)
		return sampleLine(), nil
	}
	explain := func(config string, d control.Operator, line string) (string, string, error) {
		var out, errs syncbuf.Buffer
		p := &Process{Out: &out, Err: &errs}
		a := &connection{p: p, config: &config, socketDir: filepath.Join(dir, "none")}
		if d != nil {
			a.socketDir = serve(t, d)
		}
		c := newExplain(a, offline)
		c.SetArgs([]string{"--log", "shop", "--line", line})
		c.SilenceErrors, c.SilenceUsage = true, true
		err := c.ExecuteContext(t.Context())
		return out.String(), errs.String(), err
	}

	out, errs, err := explain(path, nil, "a line")
	if err != nil || asked != "shop {shop a line}" || !strings.HasPrefix(out, "203.0.113.66 is counted") {
		t.Errorf("asked %q, %v, got\n%s", asked, err, out)
	}
	if want := "tailban: no daemon answers, so this is by " + path + " alone: bans and counts are not known\n"; errs != want {
		t.Errorf("said %q, want %q", errs, want)
	}

	if _, _, err := explain(path, nil, "bad"); err == nil || err.Error() != "the configuration has no such log" {
		t.Errorf("an offline error is %v", err)
	}

	_, errs, err = explain(filepath.Join(dir, "none.toml"), nil, "a line")
	if exitCode(err) != exitNoDaemon || errs != "" {
		t.Errorf("with no configuration: %v, said %q", err, errs)
	}

	// A daemon that refuses has the last word.
	d := newFake()
	d.err = &control.Error{Code: control.CodeNotFound, Message: "there is no such log"}
	if _, _, err := explain(path, d, "a line"); exitCode(err) != exitError || err.Error() != "there is no such log" {
		t.Errorf("refused, but %v", err)
	}
}
