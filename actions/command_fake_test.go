//go:build linux

package actions_test

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
)

// fakeFirewall is a program that commands run, built once: a test binary takes ten
// times as long to begin, and it is begun a thousand times.
type fakeFirewall struct {
	once sync.Once
	dir  string
	err  error
}

var built fakeFirewall

func (f *fakeFirewall) file(t *testing.T) string {
	t.Helper()
	f.once.Do(func() {
		if f.dir, f.err = os.MkdirTemp("", "tailban-firewall"); f.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-o", f.dir, "./actionstest/firewall").CombinedOutput(); err != nil {
			f.err = fmt.Errorf("build the fake firewall: %w\n%s", err, out)
		}
	})
	check(t, f.err)
	return filepath.Join(f.dir, "firewall")
}

func (f *fakeFirewall) remove() error {
	if f.dir == "" {
		return nil
	}
	return os.RemoveAll(f.dir)
}

// fakeRun is the arguments that run the fake firewall.
func fakeRun(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	// By env, as where it is may be open to others.
	return append([]string{"/usr/bin/env", built.file(t), dir}, args...)
}

// kinds of commands with the fake firewall.
var commandKinds = []struct {
	name string
	size int // of the large batch
	make func(t *testing.T, dir string) actions.CommandOptions
}{
	{"one by one, in memory", 24, func(t *testing.T, dir string) actions.CommandOptions {
		return actions.CommandOptions{
			Ban:   fakeRun(t, dir, "ban", "{address}/{bits}"),
			Unban: fakeRun(t, dir, "unban", "{prefix}"),
		}
	}},
	{"one by one, checked, ends by itself", 24, func(t *testing.T, dir string) actions.CommandOptions {
		return actions.CommandOptions{
			Ban:     fakeRun(t, dir, "ban", "{prefix}", "{seconds}"),
			Unban:   fakeRun(t, dir, "unban", "{prefix}"),
			Check:   fakeRun(t, dir, "check", "{prefix}"),
			Expires: true,
		}
	}},
	{"one by one, listed, without times", 24, func(t *testing.T, dir string) actions.CommandOptions {
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
