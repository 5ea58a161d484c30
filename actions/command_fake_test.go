//go:build linux

package actions_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
)

// fakeFirewall is the first argument by which this test binary is a firewall
// that keeps a file for each ban:
//
//	fakeFirewall DIR ban|unban|check|list [PREFIX [SECONDS]]
//
// Without PREFIX the targets of ban and unban are on standard input. With
// SECONDS, there or there, a ban ends by itself and the listing tells what is
// left. A file "bad" in DIR holds targets that it fails for.
const fakeFirewall = "tailban-fake-firewall"

func runFakeFirewall(args []string) int {
	f := firewall{dir: args[0]}
	if err := f.run(args[1], args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(f.status, 1)
	}
	return f.status
}

type firewall struct {
	dir    string
	status int
}

func (f *firewall) run(verb string, args []string) error {
	switch verb {
	case "list":
		return f.list()
	case "check":
		if _, ok := f.left(f.file(args[0])); !ok {
			f.status = 1
		}
		return nil
	}
	if len(args) > 0 {
		args = append(args, "0")
		seconds, err := strconv.ParseInt(args[1], 10, 64)
		return errors.Join(err, f.change(verb, args[0], seconds))
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var l struct {
			Verb, Target string
			Seconds      int64
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || l.Verb != verb {
			return fmt.Errorf("cannot read %q: %w", lines.Text(), err)
		}
		if err := f.change(verb, l.Target, l.Seconds); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (f *firewall) file(target string) string {
	return filepath.Join(f.dir, "ban "+strings.ReplaceAll(target, "/", "_"))
}

func (f *firewall) change(verb, target string, seconds int64) error {
	bad, _ := os.ReadFile(filepath.Join(f.dir, "bad"))
	if strings.Contains(string(bad), target) {
		f.status = 3
		return fmt.Errorf("no room for \x1b[31m%s", target)
	}
	if verb == "unban" {
		if err := os.Remove(f.file(target)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	var until string
	if seconds > 0 {
		until = strconv.FormatInt(time.Now().Add(time.Duration(seconds)*time.Second).UnixNano(), 10)
	}
	temp := filepath.Join(f.dir, "new "+strconv.Itoa(os.Getpid()))
	return errors.Join(os.WriteFile(temp, []byte(until), 0o600), os.Rename(temp, f.file(target)))
}

// left tells the seconds left of a ban, "" for one that has no end.
func (f *firewall) left(file string) (string, bool) {
	text, err := os.ReadFile(file)
	if err != nil || len(text) == 0 {
		return "", err == nil
	}
	until, err := strconv.ParseInt(string(text), 10, 64)
	left := time.Until(time.Unix(0, until))
	return strconv.FormatFloat(left.Seconds(), 'f', 3, 64), err == nil && left > 0
}

func (f *firewall) list() error {
	files, err := filepath.Glob(filepath.Join(f.dir, "ban *"))
	out := bufio.NewWriter(os.Stdout)
	for _, file := range files {
		if left, ok := f.left(file); ok {
			target := strings.ReplaceAll(strings.TrimPrefix(filepath.Base(file), "ban "), "_", "/")
			fmt.Fprintln(out, target, left)
		}
	}
	return errors.Join(err, out.Flush())
}

// fakeRun is the arguments that run the fake firewall.
func fakeRun(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	// By env, as where a test binary is may be open to others.
	return append([]string{"/usr/bin/env", self, fakeFirewall, dir}, args...)
}

// kinds of commands with the fake firewall.
var commandKinds = []struct {
	name string
	size int // of the large batch
	make func(t *testing.T, dir string) actions.CommandOptions
}{
	{"one by one, in memory", 60, func(t *testing.T, dir string) actions.CommandOptions {
		return actions.CommandOptions{
			Ban:   fakeRun(t, dir, "ban", "{address}/{bits}"),
			Unban: fakeRun(t, dir, "unban", "{prefix}"),
		}
	}},
	{"one by one, checked, ends by itself", 60, func(t *testing.T, dir string) actions.CommandOptions {
		return actions.CommandOptions{
			Ban:     fakeRun(t, dir, "ban", "{prefix}", "{seconds}"),
			Unban:   fakeRun(t, dir, "unban", "{prefix}"),
			Check:   fakeRun(t, dir, "check", "{prefix}"),
			Expires: true,
		}
	}},
	{"one by one, listed, without times", 60, func(t *testing.T, dir string) actions.CommandOptions {
		return actions.CommandOptions{
			Ban:   fakeRun(t, dir, "ban", "{prefix}"),
			Unban: fakeRun(t, dir, "unban", "{prefix}"),
			List:  fakeRun(t, dir, "list"),
		}
	}},
	{"batches, listed, ends by itself", 4000, func(t *testing.T, dir string) actions.CommandOptions {
		return actions.CommandOptions{
			Ban:     fakeRun(t, dir, "ban"),
			Unban:   fakeRun(t, dir, "unban"),
			List:    fakeRun(t, dir, "list"),
			Expires: true,
			Batch:   1500,
		}
	}},
	{"batches, in memory", 2000, func(t *testing.T, dir string) actions.CommandOptions {
		return actions.CommandOptions{
			Ban:   fakeRun(t, dir, "ban"),
			Unban: fakeRun(t, dir, "unban"),
			Batch: 1000,
		}
	}},
}

// newCommand returns a Command that does all that it should, Run included.
func newCommand(t *testing.T, opt actions.CommandOptions) *actions.Command {
	t.Helper()
	if opt.Timeout == 0 {
		opt.Timeout = patience
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	c, err := actions.NewCommand(opt)
	check(t, err)
	runBeside(t, c.Run)
	return c
}

func TestCommandSuite(t *testing.T) {
	t.Parallel()
	for _, kind := range commandKinds {
		t.Run(kind.name, func(t *testing.T) {
			actionstest.RunSized(t, kind.size, func(t *testing.T) actions.Action {
				return newCommand(t, kind.make(t, t.TempDir())).Action()
			})
		})
	}
}
