//go:build linux

package actions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
)

// hosts returns n bans of single addresses.
func hosts(n int) []actions.Entry {
	entries := make([]actions.Entry, n)
	for i := range entries {
		entries[i] = ban(fmt.Sprintf("10.1.%d.%d/32", i>>8, i&255), time.Hour)
	}
	return entries
}

// firewallFiles is how many bans the fake firewall really holds.
func firewallFiles(dir string) int {
	files, _ := filepath.Glob(dir + "/ban *")
	return len(files)
}

// Three of a hundred fail: the others are in force, and it is said which.
func TestCommandSomeFail(t *testing.T) {
	t.Parallel()
	for _, kind := range commandKinds {
		t.Run(kind.name, func(t *testing.T) {
			dir := t.TempDir()
			opt := kind.make(t, dir)
			opt.Batch = min(opt.Batch, 20)
			c := newCommand(t, opt)
			bad := []string{"10.1.0.7/32", "10.1.0.27/32", "10.1.0.37/32"}
			check(t, os.WriteFile(dir+"/bad", []byte(strings.Join(bad, "\n")), 0o600))

			todo := hosts(40)
			var rejected *actions.RejectedError
			for tries := 1; ; tries++ {
				err := c.Apply(t.Context(), todo, nil)
				if err == nil || tries > 10 {
					t.Fatalf("try %d: %v", tries, err)
				}
				if !strings.Contains(err.Error(), `exit status 3: no room for \x1b[31m10.1.0.`) {
					t.Errorf("try %d: %q", tries, err)
				}
				if errors.As(err, &rejected) {
					break
				}
				if errors.Is(err, actions.ErrPermanent) {
					t.Errorf("try %d is permanent: %v", tries, err)
				}
				todo = missing(t, c, hosts(40))
			}
			if len(rejected.Rejected) != 3 || !errors.Is(rejected, actions.ErrRefused) {
				t.Errorf("rejected: %v", rejected)
			}
			if n := firewallFiles(dir); n != 37 {
				t.Errorf("the firewall holds %d, want 37", n)
			}
			check(t, os.Remove(dir+"/bad"))
			check(t, c.Apply(t.Context(), missing(t, c, hosts(40)), nil))
			if n := firewallFiles(dir); n != 40 {
				t.Errorf("the firewall holds %d, want 40", n)
			}
		})
	}
}

// missing is what of these the action does not hold.
func missing(t *testing.T, a actions.Action, all []actions.Entry) (some []actions.Entry) {
	held := listed(t, a)
	for _, e := range all {
		if _, yes := held[e.Target.String()]; !yes {
			some = append(some, e)
		}
	}
	return some
}

// A target is refused if the program works for others, be it before, and not if
// it was never seen to work.
func TestCommandRefusesOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check(t, os.WriteFile(dir+"/bad", []byte("10.1.0.1/32"), 0o600))
	for _, other := range []bool{true, false} {
		c := newCommand(t, actions.CommandOptions{
			Ban: fakeRun(t, dir, "ban", "{prefix}"), Unban: success, Concurrency: 1,
		})
		todo := hosts(2) // the bad one comes last
		if !other {
			todo = todo[1:]
		}
		for try := 1; try <= 5; try++ {
			err := c.Apply(t.Context(), todo, nil)
			var rejected *actions.RejectedError
			if err == nil || errors.As(err, &rejected) != (other && try >= 3) {
				t.Errorf("another %v, try %d: %v", other, try, err)
			}
			todo = hosts(2)[1:]
		}
	}
}

// If nothing works, that is no fault of the targets, and few are tried.
func TestCommandNothingWorks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban: sh(t, `echo >> $1; echo "cannot connect" >&2; exit 255`, dir+"/runs"), Unban: success,
	})
	for range 5 {
		err := c.Apply(t.Context(), hosts(1000), nil)
		var rejected *actions.RejectedError
		if err == nil || errors.As(err, &rejected) {
			t.Fatalf("Apply returned %v", err)
		}
		if !strings.Contains(err.Error(), "1000 of 1000 changes failed: ban 10.1.") || !strings.Contains(err.Error(), "exit status 255: cannot connect") {
			t.Errorf("Apply returned %v", err)
		}
	}
	if n := len(read(t, dir+"/runs")); n > 5*20 {
		t.Errorf("%d runs in 5 passes", n)
	}
	// What does not work to unban keeps nothing from being banned.
	c = newCommand(t, actions.CommandOptions{Ban: fakeRun(t, dir, "ban", "{prefix}"), Unban: []string{"/bin/false"}})
	var remove []netip.Prefix
	for _, e := range hosts(50) {
		remove = append(remove, e.Target)
	}
	if err := c.Apply(t.Context(), []actions.Entry{ban("192.0.2.1/32", time.Hour)}, remove); err == nil || !strings.Contains(err.Error(), "50 of 51") {
		t.Errorf("Apply returned %v", err)
	}
	if n := firewallFiles(dir); n != 1 {
		t.Errorf("the firewall holds %d, want 1", n)
	}
}

func TestCommandThatIsMissing(t *testing.T) {
	t.Parallel()
	c := newCommand(t, actions.CommandOptions{Ban: []string{"/nonexistent/ban"}, Unban: success})
	err := c.Apply(t.Context(), hosts(1), nil)
	if !errors.Is(err, actions.ErrPermanent) || !strings.Contains(err.Error(), "ban 10.1.0.0/32: /nonexistent/ban: ") {
		t.Errorf("Apply returned %v", err)
	}
}

// A program that hangs is ended with all that it has started, whether it heeds
// SIGTERM or not, and keeps no other target waiting for that.
func TestCommandHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hang := `
case $2 in 10.1.0.1) trap '' TERM ;; 10.1.0.2) ;; *) : > "$1/$2"; exit ;; esac
sleep 1000 &
echo $! > "$1/child $2"
echo "waiting for a lock" >&2
wait
wait
sleep 1000`
	c := newCommand(t, actions.CommandOptions{
		Ban: sh(t, hang, dir, "{address}"), Unban: success, Timeout: 4 * time.Second,
	})
	done := make(chan error, 1)
	go func() { done <- c.Apply(context.Background(), hosts(30), nil) }()
	within(t, "the others are banned", func() bool {
		files, _ := filepath.Glob(dir + "/10.1.*")
		return len(files) == 28
	})
	select {
	case err := <-done:
		t.Error("the others waited for those that hang: ", err)
	default:
	}
	err := <-done
	if err == nil || !strings.Contains(err.Error(), "took too long and was ended after 4s: waiting for a lock") || !strings.Contains(err.Error(), "2 of 30") {
		t.Errorf("Apply returned %v", err)
	}
	for _, name := range []string{"child 10.1.0.1", "child 10.1.0.2"} {
		gone(t, filepath.Join(dir, name))
	}
	if s := c.Stats(); s.Timeouts != 2 || s.Failures != 2 || s.Runs != 30 {
		t.Errorf("stats are %+v", s)
	}
}

// gone waits for the process whose number is in a file to be gone.
func gone(t *testing.T, file string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, file)))
	check(t, err)
	within(t, fmt.Sprint("process ", pid, " is gone"), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || bytes.Contains(stat, []byte(") Z "))
	})
}

// A program that was ended for its time has not done its work, whatever it says
// when it is asked to end.
func TestCommandTimeoutIsNoSuccess(t *testing.T) {
	t.Parallel()
	late := sh(t, "trap 'exit 0' TERM\necho 192.0.2.1\nsleep 600 & wait\n", "{family}")
	c := newCommand(t, actions.CommandOptions{Ban: late, Unban: success, List: late, Timeout: time.Second})
	if err := c.Apply(t.Context(), hosts(1), nil); !strings.Contains(fmt.Sprint(err), "took too long") || c.Stats().Timeouts == 0 {
		t.Errorf("a ban that was ended: %v, %+v", err, c.Stats())
	}
	if got, err := c.List(t.Context()); !strings.Contains(fmt.Sprint(err), "took too long") {
		t.Errorf("a listing that was ended: %v, %v", got, err)
	}
}

func TestCommandEndsWithContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban: sh(t, `sleep 1000 & echo $! > "$1/new"; mv "$1/new" "$1/child"; wait`, dir), Unban: success, Timeout: time.Minute,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Apply(ctx, hosts(1), nil) }()
	within(t, "the program runs", func() bool { _, err := os.Stat(dir + "/child"); return err == nil })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Apply returned %v", err)
	}
	gone(t, dir+"/child")
}

// What a program leaves in its group is ended; what has left the group holds
// nothing up.
func TestCommandLeavesProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, actions.CommandOptions{
		Ban: sh(t, `sleep 1000 & echo $! > "$1/inside"; setsid sleep 1000 & echo $! > "$1/outside"
while [ "$(cut -d' ' -f5 /proc/$!/stat)" != $! ]; do :; done`, dir), Unban: success,
	})
	check(t, c.Apply(t.Context(), hosts(1), nil))
	gone(t, dir+"/inside")
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, dir+"/outside")))
	check(t, err)
	check(t, unix.Kill(pid, unix.SIGKILL))
}

// Output without an end, and input that nobody reads.
func TestCommandFloods(t *testing.T) {
	t.Parallel()
	c := newCommand(t, actions.CommandOptions{
		Ban: sh(t, `yes "$(printf '\033]0;title\007')" & yes >&2`), Unban: []string{"/bin/false"}, List: []string{"/usr/bin/yes", "192.0.2.1"},
		Timeout: time.Second, Batch: 20000,
	})
	err := c.Apply(t.Context(), hosts(20000), nil)
	if !strings.Contains(fmt.Sprint(err), "took too long") || len(err.Error()) > 2000 {
		t.Errorf("Apply returned %d bytes: %.300s", len(err.Error()), err)
	}
	if _, err := c.List(t.Context()); err == nil {
		t.Error("List understood a listing without an end")
	}
}

// A program may fail for what is as it should be; that can be looked at.
func TestCommandFailsForWhatIsDone(t *testing.T) {
	t.Parallel()
	strict := `
dir=$1 verb=$2 target=$(echo "$3" | tr / _)
case $verb in
ban) set -C; : > "$dir/$target" ;;
unban) rm "$dir/$target" ;;
check) test -e "$dir/$target" ;;
list) ls "$dir" | tr _ / ;;
esac`
	for _, look := range []string{"", "check", "list"} {
		dir := t.TempDir()
		opt := actions.CommandOptions{Ban: sh(t, strict, dir, "ban", "{prefix}"), Unban: sh(t, strict, dir, "unban", "{prefix}")}
		switch look {
		case "check":
			opt.Check = sh(t, strict, dir, "check", "{prefix}")
		case "list":
			opt.List = sh(t, strict, dir, "list")
		}
		c := newCommand(t, opt)
		check(t, c.Apply(t.Context(), hosts(3), nil))
		again := c.Apply(t.Context(), hosts(3), nil)
		absent := c.Apply(t.Context(), nil, []netip.Prefix{pfx("192.0.2.1/32"), pfx("192.0.2.2/32")})
		if ok := look != ""; (again == nil) != ok || (absent == nil) != ok {
			t.Errorf("looked at by %q: banned again: %v; unbanned what was not there: %v", look, again, absent)
		}
	}
}
