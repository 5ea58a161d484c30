package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
)

// serve runs a daemon's sockets, and returns their folder.
func serve(t *testing.T, d control.Operator) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	s := control.NewServer(control.Options{Dir: dir, Daemon: d})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return dir
}

// result is what a command left behind.
type result struct {
	out, err, both string // standard output, standard error, what a terminal shows
	code           int
}

// run runs a command on a screen of 80 columns.
func run(ctx context.Context, dir, in string, args ...string) result {
	var out, err, both locked
	code := Main(ctx, Process{
		Args: append([]string{"--socket-dir", dir}, args...), Env: []string{"COLUMNS=80"},
		In: strings.NewReader(in), Out: tee{&out, &both}, Err: tee{&err, &both},
	})
	return result{out: out.String(), err: err.String(), both: both.String(), code: code}
}

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type tee [2]*locked

func (t tee) Write(p []byte) (int, error) {
	t[1].Write(p)
	return t[0].Write(p)
}

// golden compares with a file of testdata, or writes it if UPDATE is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (-want +got):\n%s", path, diff)
	}
}

// What every command shows, to a person and as JSON. The tables of the usual
// cases are in docs/commands.md, which TestDocumentedCommands compares.
func TestControlOutput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args string
		set  func(*fakeDaemon)
		code int
	}{
		{name: "status_json", args: "status --json"},
		{name: "status_calm", args: "status", set: func(d *fakeDaemon) { d.status = calmStatus() }},
		{name: "status_last_good", args: "status", set: func(d *fakeDaemon) { d.status = lastGoodStatus() }},
		{name: "status_check_calm", args: "status --check", set: func(d *fakeDaemon) { d.status = calmStatus() }},
		{name: "status_check_json", args: "status --check --json", code: exitUnhealthy},
		{name: "status_check_calm_json", args: "status --check --json", set: func(d *fakeDaemon) { d.status = calmStatus() }},
		{name: "bans_json", args: "bans --json"},
		{name: "bans_none", args: "bans --jail quiet"},
		{name: "ban_json", args: "ban 203.0.113.0/24 --json"},
		{name: "unban_json", args: "unban 203.0.113.66 --json"},
		{name: "unban_all", args: "unban --all", set: func(d *fakeDaemon) {
			d.unban = &control.UnbanResult{Lifted: 4_211}
			for i := range 1_000 {
				d.unban.Targets = append(d.unban.Targets, netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 32))
			}
		}},
		{name: "unban_none", args: "unban 203.0.113.1", set: func(d *fakeDaemon) { d.unban = &control.UnbanResult{} }},
		{name: "allow_json", args: "allow 198.51.100.7 --for 2h --json"},
		{name: "hold_forever", args: "hold sign-in"},
		{name: "hold_json", args: "hold sign-in --for 1h --json"},
		{name: "resume_json", args: "resume sign-in --json"},
		{name: "reload_json", args: "reload --json"},
		{name: "reload_same", args: "reload", set: func(d *fakeDaemon) { d.reload = &control.ReloadResult{} }},
		{name: "explain_json", args: "explain 203.0.113.66 --json"},
		{name: "explain_protected", args: "explain 10.0.0.1", set: func(d *fakeDaemon) {
			d.explain = &control.Explanation{
				Now: at(0), Address: netip.MustParseAddr("10.0.0.1"), Target: netip.MustParsePrefix("10.0.0.1/32"),
				Conclusion: control.Protected, Text: "10.0.0.1 can't be banned.", Protected: "it is a trusted proxy",
			}
		}},
		{name: "explain_by_hand", args: "explain 198.51.100.1", set: func(d *fakeDaemon) {
			d.explain = &control.Explanation{
				Now: at(0), Address: netip.MustParseAddr("198.51.100.1"), Target: netip.MustParsePrefix("198.51.100.1/32"),
				Conclusion: control.Banned, Text: "198.51.100.1 is banned.", Bans: sampleBans().Bans[2:],
			}
		}},
		{name: "explain_line_json", args: "explain --log nginx --line x --json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newFake()
			if test.set != nil {
				test.set(d)
			}
			r := run(t.Context(), serve(t, d), "", strings.Fields(test.args)...)
			if r.code != test.code {
				t.Errorf("exit code %d, want %d", r.code, test.code)
			}
			if strings.Contains(test.args, "--json") && !json.Valid([]byte(r.out)) {
				t.Error("this is no JSON")
			}
			checkHarmless(t, r.both)
			golden(t, test.name, r.both)
		})
	}
}

// checkHarmless fails if anything in an output could act on a terminal.
func checkHarmless(t *testing.T, out string) {
	t.Helper()
	for _, r := range out {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x202e {
			t.Errorf("%U is in the output", r)
		}
	}
}

// What is asked of the daemon, for what is written.
func TestControlRequests(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix
	for _, test := range []struct {
		args []string
		want any
		said string // on standard error
	}{
		{args: []string{"bans"}, want: control.BansQuery{Sort: "left"}},
		{
			args: []string{"bans", "203.0.113.0/24", "--jail", "web", "--action", "edge", "--sort", "packets", "--limit", "3"},
			want: control.BansQuery{Overlap: prefix("203.0.113.0/24"), Jail: "web", Action: "edge", Sort: "packets", Limit: 3},
		},
		// A look at an address is at that address alone.
		{args: []string{"bans", "2001:db8::1"}, want: control.BansQuery{Overlap: prefix("2001:db8::1/128"), Sort: "left"}},
		{args: []string{"ban", "203.0.113.66"}, want: control.BanRequest{Target: prefix("203.0.113.66/32")}},
		{args: []string{"ban", "::ffff:203.0.113.66"}, want: control.BanRequest{Target: prefix("203.0.113.66/32")}},
		{args: []string{"ban", "::ffff:203.0.113.0/120"}, want: control.BanRequest{Target: prefix("203.0.113.0/24")}},
		{
			args: []string{"ban", "2001:db8::1", "--for", "7d12h", "--jail", "web", "--reason", "a b", "--force"},
			want: control.BanRequest{Target: prefix("2001:db8::/64"), For: 7*day + 12*hour, Jail: "web", Reason: "a b", Force: true},
			said: "tailban: 2001:db8::1 is taken as its network 2001:db8::/64; 2001:db8::1/128 is the address alone\n",
		},
		{args: []string{"ban", "2001:db8::1/128", "--for", "90s"}, want: control.BanRequest{Target: prefix("2001:db8::1/128"), For: 90}},
		// Behind NAT64 each address is somebody else.
		{args: []string{"ban", "64:ff9b::1"}, want: control.BanRequest{Target: prefix("64:ff9b::1/128")}},
		{args: []string{"unban", "203.0.113.66", "--jail", "web"}, want: control.UnbanRequest{Target: prefix("203.0.113.66/32"), Jail: "web"}},
		{args: []string{"unban", "--all", "--forgive", "1d", "--reason", "r"}, want: control.UnbanRequest{All: true, Forgive: day, Reason: "r"}},
		{args: []string{"unban", "--jail", "web"}, want: control.UnbanRequest{Jail: "web"}},
		{
			args: []string{"allow", "203.0.113.7", "--for", "2h", "--reason", "r"},
			want: control.AllowRequest{Target: prefix("203.0.113.7/32"), For: 2 * hour, Reason: "r"},
		},
		{args: []string{"allow", "--end", "203.0.113.7"}, want: control.AllowRequest{Target: prefix("203.0.113.7/32"), End: true}},
		{args: []string{"hold", "web", "--for", "1h", "--reason", "r"}, want: control.HoldRequest{Jail: "web", For: hour, Reason: "r"}},
		{args: []string{"resume", "web", "--reason", "r"}, want: control.HoldRequest{Jail: "web", Resume: true, Reason: "r"}},
		{args: []string{"explain", "::ffff:203.0.113.66"}, want: netip.MustParseAddr("203.0.113.66")},
		{args: []string{"explain", "--line", `a "b"`, "--log", "shop"}, want: control.LineQuery{Log: "shop", Line: `a "b"`}},
		{args: []string{"explain", "--line", "-"}, want: control.LineQuery{Line: "first"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			d := newFake()
			r := run(t.Context(), serve(t, d), "first\r\nsecond\n", test.args...)
			if r.code != exitOK || r.err != test.said {
				t.Errorf("exit code %d, %q; want %q", r.code, r.err, test.said)
			}
			if !reflect.DeepEqual(d.asked, test.want) {
				t.Errorf("asked %#v, want %#v", d.asked, test.want)
			}
		})
	}
}

// Mistakes on the command line never reach a daemon.
func TestControlUsage(t *testing.T) {
	t.Parallel()
	const durationHint = `must be a duration like "60s", "1h30m" or "7d" (units w, d, h, m, s, longest first)`
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "now"}, `tailban status takes no arguments, but got "now"`},
		{[]string{"bans", "a", "b"}, `tailban bans takes one address or range at most, but got 2 arguments`},
		{[]string{"bans", "nginx"}, `"nginx" is no address and no range like 203.0.113.0/24`},
		{[]string{"bans", "--sort", "size"}, `--sort is one of left, since, target, packets, offence, not "size"`},
		{[]string{"bans", "--limit", "-1"}, `--limit is 0 or more, not -1`},
		{[]string{"ban"}, `tailban ban takes one address or range, but got 0 arguments`},
		{[]string{"ban", "203.0.113.6\x1b[2J"}, `"203.0.113.6\x1b[2J" is no address`},
		{[]string{"ban", "fe80::1%eth0"}, `"fe80::1%eth0" is no address`},
		{[]string{"ban", "203.0.113.0/33"}, `"203.0.113.0/33" is no address and no range like 203.0.113.0/24`},
		{[]string{"ban", "203.0.113.9/24"}, `"203.0.113.9/24" has bits set behind the mask: is 203.0.113.0/24 meant, or 203.0.113.9?`},
		{[]string{"bans", "2001:db8::1/64"}, `"2001:db8::1/64" has bits set behind the mask: is 2001:db8::/64 meant, or 2001:db8::1?`},
		{[]string{"ban", "203.0.113.6", "--for", "1x"}, `invalid argument "1x" for "--for" flag: ` + durationHint},
		{[]string{"ban", "203.0.113.6", "--for", "0s"}, `invalid argument "0s" for "--for" flag: must be longer than nothing`},
		{[]string{"unban"}, `unban needs an address, a range, --jail or --all`},
		{[]string{"unban", "--all", "203.0.113.6"}, `--all lifts every ban: it goes with no address, no range and no --jail`},
		{[]string{"unban", "--all", "--jail", "web"}, `--all lifts every ban: it goes with no address, no range and no --jail`},
		{[]string{"unban", "203.0.113.6", "203.0.113.7"}, `tailban unban takes one address or range at most, but got 2 arguments`},
		{[]string{"unban", "x"}, `"x" is no address`},
		{[]string{"unban", "--jail", ""}, `unban needs an address, a range, --jail or --all`},
		{[]string{"unban", "--all=false"}, `unban needs an address, a range, --jail or --all`},
		{[]string{"allow", "203.0.113.6"}, `allow needs --for, such as --for 2h; for good is "allow" of the configuration`},
		{[]string{"allow", "--for", "2h"}, `tailban allow takes one address or range, but got 0 arguments`},
		{[]string{"allow", "--end", "203.0.113.6", "--for", "2h"}, `--end takes no --for: it ends at once`},
		{[]string{"allow", "x", "--for", "2h"}, `"x" is no address`},
		{[]string{"hold"}, `tailban hold takes one jail, but got 0 arguments`},
		{[]string{"hold", "a", "b"}, `tailban hold takes one jail, but got 2 arguments`},
		{[]string{"resume"}, `tailban resume takes one jail, but got 0 arguments`},
		{[]string{"resume", "a", "--for", "1h"}, `unknown flag: --for`},
		{[]string{"reload", "now"}, `tailban reload takes no arguments, but got "now"`},
		{[]string{"events", "now"}, `tailban events takes no arguments, but got "now"`},
		{[]string{"explain"}, `tailban explain takes one address, or --line, but got 0 arguments`},
		{[]string{"explain", "203.0.113.6", "--line", "x"}, `explain takes an address or --line, not both`},
		{[]string{"explain", "203.0.113.6", "--log", "x"}, `--log goes with --line`},
		{[]string{"explain", "203.0.113.0/24"}, `explain takes an address, not a range; tailban bans lists the bans in one`},
		{[]string{"explain", "office.example.net"}, `"office.example.net" is no address`},
		{[]string{"explain", "--line", ""}, `the line is empty`},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			r := run(t.Context(), "/nowhere", "", test.args...)
			want := "tailban: " + test.want + "\ntailban: hint: see tailban --help\n"
			if r.code != exitUsage || r.both != want {
				t.Errorf("exit code %d and\n%s\nwant 2 and\n%s", r.code, r.both, want)
			}
		})
	}
}

// What the daemon refuses is said in its words.
func TestControlErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		args string
		want string
		code int
	}{
		{
			"refused", &control.Error{Code: control.CodeRefused, Message: "10.0.0.1 is protected: it is a trusted proxy"}, "ban 10.0.0.1",
			"tailban: 10.0.0.1 is protected: it is a trusted proxy\n", exitError,
		},
		{
			"not found", &control.Error{Code: control.CodeNotFound, Message: `there is no jail "wbe"`, Hint: `did you mean "web"?`}, "hold wbe",
			"tailban: there is no jail \"wbe\"\ntailban: hint: did you mean \"web\"?\n", exitError,
		},
		{
			"denied", &control.Error{Code: control.CodeDenied, Message: "not allowed"}, "status",
			"tailban: not allowed\n", exitError,
		},
		{
			"busy", &control.Error{Code: control.CodeBusy, Message: "too many questions at a time"}, "explain 203.0.113.6",
			"tailban: too many questions at a time\n", exitError,
		},
		{
			"configuration", &control.Error{
				Code: control.CodeConfig, Message: "the configuration has 2 problems; nothing changed",
				Problems: []string{`/etc/tailban/jails.toml:3: jails.web.path: "~\d(" is no pattern`, "/etc/tailban/jails.toml:9: \x1b[2J"},
			}, "reload",
			"/etc/tailban/jails.toml:3: jails.web.path: \"~\\d(\" is no pattern\n/etc/tailban/jails.toml:9: \\x1b[2J\n" +
				"tailban: the configuration has 2 problems; nothing changed\n", exitError,
		},
		{
			"text of others", &control.Error{Code: control.CodeNotFound, Message: "no \x1b[2J", Hint: "\u202e"}, "events",
			"tailban: no \\x1b[2J\ntailban: hint: \\u{202e}\n", exitError,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newFake()
			d.err = test.err
			r := run(t.Context(), serve(t, d), "", strings.Fields(test.args)...)
			if r.code != test.code || r.both != test.want {
				t.Errorf("exit code %d and\n%s\nwant %d and\n%s", r.code, r.both, test.code, test.want)
			}
		})
	}
}

// controlCommands are the commands that ask a daemon, each in some form that
// is right.
func controlCommands() []string {
	return []string{
		"status", "status --check", "status --json", "bans", "ban 203.0.113.6", "unban --all", "allow 203.0.113.6 --for 1h", "hold web", "resume web",
		"reload", "events", "events --json", "explain 203.0.113.6", "explain --log nginx --line x",
	}
}

func TestNoDaemon(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	for _, command := range controlCommands() {
		r := run(t.Context(), dir, "", strings.Fields(command)...)
		if r.code != exitNoDaemon || r.out != "" || !strings.HasPrefix(r.err, "tailban: no daemon answers: "+dir) || !strings.Contains(r.err, "does not exist\ntailban: hint: ") {
			t.Errorf("%s: exit code %d and %q", command, r.code, r.both)
		}
	}
}

// A daemon that was killed leaves its sockets behind.
func TestDeadDaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{control.StatusSocket, control.ControlSocket} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name)})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	for _, command := range controlCommands() {
		r := run(t.Context(), dir, "", strings.Fields(command)...)
		if r.code != exitNoDaemon || !strings.HasPrefix(r.err, "tailban: no daemon answers: nobody listens at "+dir) {
			t.Errorf("%s: exit code %d and %q", command, r.code, r.both)
		}
	}
}

func TestNotAllowed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may connect to every socket")
	}
	dir := serve(t, newFake())
	for _, name := range []string{control.StatusSocket, control.ControlSocket} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	r := run(t.Context(), dir, "", "status")
	if r.code != exitError || !strings.HasPrefix(r.err, "tailban: not allowed to connect to "+dir) || !strings.Contains(r.err, "hint: ") {
		t.Errorf("exit code %d and %q", r.code, r.both)
	}
}

func TestStatusCheck(t *testing.T) {
	t.Parallel()
	d := newFake()
	r := run(t.Context(), serve(t, d), "", "status", "--check")
	if r.code != exitUnhealthy || r.err != "" {
		t.Errorf("exit code %d, standard error %q", r.code, r.err)
	}
	if n := strings.Count(r.out, "\n"); n != len(d.status.Problems) {
		t.Errorf("%d lines for %d problems:\n%s", n, len(d.status.Problems), r.out)
	}
}

// stopAfter interrupts a command when it has written so many lines.
type stopAfter struct {
	locked
	lines int
	stop  func()
}

func (s *stopAfter) Write(p []byte) (int, error) {
	n, err := s.locked.Write(p)
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
	var e locked
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
		var out, errs locked
		p := &Process{Out: &out, Err: &errs}
		a := &access{p: p, config: &config, socketDir: filepath.Join(dir, "none")}
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
	if err != nil || asked != "shop {shop a line}" || !strings.HasPrefix(out, "sign-in counts this line") {
		t.Errorf("asked %q, %v, got\n%s", asked, err, out)
	}
	if want := "tailban: no daemon answers, so this is by " + path + " alone: bans and counts are not known\n"; errs != want {
		t.Errorf("said %q, want %q", errs, want)
	}

	if _, _, err := explain(path, nil, "bad"); err == nil || err.Error() != "the configuration has no such log" {
		t.Errorf("an offline error is %v", err)
	}

	_, errs, err = explain(filepath.Join(dir, "none.toml"), nil, "a line")
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(errs, "the configuration can't be used instead") {
		t.Errorf("with no configuration: %v, said %q", err, errs)
	}

	// A daemon that refuses has the last word.
	d := newFake()
	d.err = &control.Error{Code: control.CodeNotFound, Message: "there is no such log"}
	if _, _, err := explain(path, d, "a line"); exitCode(err) != exitError || err.Error() != "there is no such log" {
		t.Errorf("refused, but %v", err)
	}
}
