package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/control"
)

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
		{[]string{"explain", "--line", "", "--log", "x"}, `the line is empty`},
		{[]string{"explain", "--line", "x"}, `--line needs --log, the log of the configuration that the line is of`},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			r := run(t.Context(), "/nowhere", "", test.args...)
			want := "tailban: " + test.want + "\ntailban: hint: see tailban " + test.args[0] + " --help\n"
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
		"reload", "lists accept googlebot", "events", "events --json", "explain 203.0.113.6", "explain --log nginx --line x",
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
