// Package cli is the command line: flags, output and exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	tailband "github.com/tailban/tailban/internal/daemon"
)

// DefaultConfig is where the configuration is looked for.
const DefaultConfig = "/etc/tailban/jails.toml"

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // something failed, or the configuration has problems
	exitUsage = 2 // the command line was wrong

	// Only of commands that ask a running daemon.
	exitUnhealthy = 3 // it is not healthy: status --check
	exitNoDaemon  = 4 // none answers
)

// Process is what a command has from its process.
type Process struct {
	Args    []string // without the program's name
	Env     []string // as in os.Environ
	In      io.Reader
	Out     io.Writer
	Err     io.Writer
	Version string // set by the build; may be empty

	// Hangups are SIGHUP, at which a daemon reloads; nil: there are none.
	Hangups <-chan os.Signal
}

// usageError marks errors of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Main runs the command that the arguments name, until it is done or ctx is,
// and returns the exit code.
func Main(ctx context.Context, p Process) int {
	root := newRoot(&p)
	root.SetArgs(p.Args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	// Each problem of a configuration names its file and line: a prefix would
	// hide that from editors that jump there.
	if problems := (config.Problems)(nil); errors.As(err, &problems) {
		for _, x := range problems {
			fmt.Fprintln(p.Err, x)
		}
		fmt.Fprintf(p.Err, "tailban: %s in the configuration\n", plural(len(problems), "problem"))
		return exitError
	}
	code := exitCode(err)
	if refusal := (*control.Error)(nil); errors.As(err, &refusal) {
		complain(&p, refusal)
	} else if code != exitUnhealthy { // which has said it
		fmt.Fprintf(p.Err, "tailban: %v\n", err)
	}
	if hint := hintOf(c, code, err); hint != "" {
		fmt.Fprintf(p.Err, "tailban: hint: %s\n", hint)
	}
	return code
}

// hintOf says what to do about an error of a command; "" if the error does.
func hintOf(c *cobra.Command, code int, err error) string {
	file := (*fs.PathError)(nil)
	switch {
	case code == exitUsage:
		return "see " + c.CommandPath() + " --help"
	case errors.As(err, &file) && errors.Is(file, fs.ErrPermission):
		return "try sudo; on Debian members of the group adm can read logs, too"
	}
	return ""
}

// Commands is the tree of all commands, to describe them.
func Commands() *cobra.Command { return newRoot(&Process{}) }

func newRoot(p *Process) *cobra.Command {
	root := &cobra.Command{
		Use:   "tailban",
		Short: "Ban clients that exceed limits in access logs",
		Long: `Ban clients that exceed limits in access logs.

Exit codes: 0 done; 1 something failed, or the configuration has problems;
2 the command line was wrong; 3 the daemon is not healthy (status --check);
4 no daemon answers.`,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			near := ""
			if names := c.SuggestionsFor(args[0]); len(names) > 0 {
				near = fmt.Sprintf(", did you mean %q?", names[0])
			}
			return usageError{fmt.Errorf("there is no command %q%s", args[0], near)}
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	var path string
	root.PersistentFlags().StringVarP(&path, "config", "c", DefaultConfig, "configuration `file`")
	a := &connection{p: p, config: &path}
	root.PersistentFlags().StringVar(&a.socketDir, "socket-dir", "", "`folder` of the daemon's sockets (default: runtime_dir of the configuration)")
	root.AddCommand(
		newRun(p, &path),
		newReplay(p, &path),
		newCheck(p, &path),
		newLists(a),
		newProbe(p, &path),
		newTeardown(a),
		newCloudflare(p, &path),
		newNotify(p, &path),
		newStatus(a),
		newBans(a),
		newExplain(a, func(c *config.Config, q control.LineQuery) (*control.LineExplanation, error) {
			return tailband.ExplainLine(c, q, time.Now())
		}),
		newEvents(a),
		newBan(a),
		newUnban(a),
		newAllow(a),
		newHold(a),
		newResume(a),
		newConfirm(a),
		newReload(a),
		newVersion(p),
	)
	return root
}

func newVersion(p *Process) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.Out, "tailban", versionText(p.Version))
			return err
		},
	}
}

// versionText is the version that the build set, or what Go recorded.
func versionText(built string) string {
	if built != "" {
		return built
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// noArgs is cobra's check with an error of ours.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, but got %q", c.CommandPath(), args[0])}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
