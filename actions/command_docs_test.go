//go:build linux

package actions_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
	"github.com/tailban/tailban/internal/netlab"
)

// documented returns the options in the examples of the documentation of
// Command, in order.
func documented(t *testing.T) (examples []actions.CommandOptions) {
	t.Helper()
	_, text, ok := strings.Cut(read(t, "command.go"), "// # Examples\n")
	if !ok {
		t.Fatal("the documentation has no examples")
	}
	text, _, _ = strings.Cut(text, "\ntype Command struct")
	var code strings.Builder
	for line := range strings.Lines(text + "\n//\n") {
		if line, yes := strings.CutPrefix(line, "//\t"); yes {
			code.WriteString(line)
			continue
		}
		if code.Len() == 0 {
			continue
		}
		var o struct {
			Ban, Unban, Check, List []string
			ListTarget              string `toml:"list_target"`
			Expires                 bool
		}
		m, err := toml.Decode(code.String(), &o)
		check(t, err)
		if left := m.Undecoded(); len(left) > 0 {
			t.Fatalf("unknown keys %v", left)
		}
		examples = append(examples, actions.CommandOptions{
			Ban: o.Ban, Unban: o.Unban, Check: o.Check, List: o.List, ListTarget: o.ListTarget, Expires: o.Expires,
		})
		code.Reset()
	}
	return examples
}

// inside runs all programs in a network namespace.
func inside(t *testing.T, ns *netlab.NS, opt actions.CommandOptions) actions.CommandOptions {
	t.Helper()
	enter, err := exec.LookPath("nsenter")
	if err != nil {
		t.Skip("needs nsenter: ", err)
	}
	for _, argv := range []*[]string{&opt.Ban, &opt.Unban, &opt.Check, &opt.List} {
		if len(*argv) > 0 {
			*argv = append([]string{enter, fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), ns.FD()), "--"}, *argv...)
		}
	}
	return opt
}

func blackholes(t *testing.T) actions.CommandOptions {
	opt := documented(t)[0]
	if _, err := os.Stat(opt.Ban[0]); err != nil {
		t.Skip("needs iproute2: ", err)
	}
	return opt
}

func TestCommandBlackholeSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, most of them in other programs")
	}
	t.Parallel()
	opt := blackholes(t)
	actionstest.RunSized(t, 24, func(t *testing.T) actions.Action {
		return newCommand(t, inside(t, newNS(t), opt)).Action()
	})
}

// The routes of others are left alone, and a packet to who is banned is not
// sent.
func TestCommandBlackhole(t *testing.T) {
	t.Parallel()
	ns := newNS(t)
	c := newCommand(t, inside(t, ns, blackholes(t)))
	ip := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("/usr/sbin/ip", args...)
		out := new(strings.Builder)
		cmd.Stdout, cmd.Stderr = out, out
		check(t, ns.Start(cmd))
		if err := cmd.Wait(); err != nil {
			return err.Error() + ": " + out.String()
		}
		return out.String()
	}
	ip("route", "add", "blackhole", "198.51.100.0/24")
	ip("route", "add", "default", "dev", "lo")
	if got := ip("route", "get", "203.0.113.9"); !strings.Contains(got, "dev lo") {
		t.Fatalf("before a ban: %s", got)
	}
	apply(t, c, ban("203.0.113.0/24", time.Hour), ban("2001:db8::/64", time.Hour), ban("198.51.100.7/32", time.Hour))
	for _, banned := range []string{"203.0.113.9", "198.51.100.7"} {
		if got := ip("route", "get", banned); !strings.Contains(got, "Invalid argument") && !strings.Contains(got, "blackhole") {
			t.Errorf("%s is banned, its route is %s", banned, got)
		}
	}
	if got := listed(t, c); len(got) != 3 {
		t.Errorf("lists %v", got)
	}
	// Two of them are absent, one by itself and one as of others.
	check(t, c.Apply(t.Context(), nil, []netip.Prefix{pfx("203.0.113.0/24"), pfx("192.0.2.1/32"), pfx("198.51.100.0/24")}))
	if got := ip("route", "show", "type", "blackhole"); !strings.Contains(got, "198.51.100.0/24") || strings.Contains(got, "203.0.113") {
		t.Errorf("the routes are\n%s", got)
	}
}

// A stand-in for ssh does with its arguments what ssh and a shell on the other
// side do: joins those behind the host and splits them again.
func TestCommandSSH(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, most of them in other programs")
	}
	t.Parallel()
	dir := t.TempDir()
	ssh := `
[ "$1 $2 $3 $4 $5" = "-o BatchMode=yes -o ConnectTimeout=5 tailban@router" ] || { echo "usage: $*" >&2; exit 255; }
shift 5
command="$*"
sh -c "ban() { \"\$0\" ` + dir + ` \"\$@\"; }; $command" "$REAL"`
	opt := documented(t)[1]
	file := filepath.Join(dir, "ssh")
	ssh = strings.ReplaceAll(ssh, "$REAL", built.file(t))
	check(t, os.WriteFile(file, []byte(ssh), 0o600))
	for _, argv := range []*[]string{&opt.Ban, &opt.Unban, &opt.List} {
		if (*argv)[0] != "/usr/bin/ssh" {
			t.Fatalf("the example runs %q", *argv)
		}
		*argv = slices.Concat([]string{"/bin/sh", file}, (*argv)[1:])
		// The fake firewall's verbs are called otherwise.
		for i, arg := range *argv {
			if v, ok := map[string]string{"add": "ban", "del": "unban"}[arg]; ok {
				(*argv)[i] = v
			}
		}
	}
	actionstest.RunSized(t, 20, func(t *testing.T) actions.Action {
		files, _ := filepath.Glob(dir + "/ban *")
		for _, file := range files {
			check(t, os.Remove(file))
		}
		return newCommand(t, opt).Action()
	})
}
