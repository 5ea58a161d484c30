package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	tailband "github.com/tailban/tailban/internal/daemon"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/internal/replay"
	"github.com/tailban/tailban/internal/source"
	"golang.org/x/term"
)

func newRun(p *Process, path *string) *cobra.Command {
	var observe bool
	var confirm durationFlag
	c := &cobra.Command{
		Use:   "run [--observe FILE… | --confirm TIME]",
		Short: "Run the daemon in the foreground",
		Long: `Follow the configured logs, decide, and have bans enforced, until SIGTERM or
an interrupt. Bans stay in force when the daemon stops.

With --observe nothing is enforced, whatever the configuration says. With
--observe and log files no configuration is needed: the built-in jail watches
them, more than 50 requests in 60 seconds.

With --confirm no ban lasts beyond that time from the start, unless tailban
confirm comes before: who is locked out by a new configuration only waits.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && (!observe || c.Flags().Changed("config")) {
				return usageError{errors.New("files are named on the command line only with --observe and without --config; otherwise the configuration names them")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return runFiles(c.Context(), p, args)
			}
			return runConfigured(c.Context(), p, *path, observe, confirm.Duration)
		},
	}
	c.Flags().BoolVar(&observe, "observe", false, "decide and log, enforce nothing")
	c.Flags().Var(&confirm, "confirm", "all bans end so long after the start, unless tailban confirm comes before: 10m")
	return c
}

// runFiles watches files with the built-in configuration.
func runFiles(ctx context.Context, p *Process, files []string) error {
	cfg := config.Builtin()
	cleanup, err := watch(cfg, files)
	if err != nil {
		return err
	}
	defer cleanup()
	cfg.ObserveAll()
	return runDaemon(ctx, p, tailband.Options{Config: cfg})
}

// runConfigured runs by the configuration, which can be reloaded. If it has
// problems the copy of the one that ran before does it: a slip of the pen must
// not leave a host without protection at its next start.
func runConfigured(ctx context.Context, p *Process, path string, observe bool, confirm time.Duration) error {
	load := func() (*config.Config, error) {
		cfg, err := config.Load(path, p.Env)
		if err == nil && observe {
			cfg.ObserveAll()
		}
		return cfg, err
	}
	o := tailband.Options{Load: load, Confirm: confirm, Reloads: p.Hangups, Source: control.ConfigStatus{Path: path, Loaded: time.Now().UTC()}}
	var err error
	if o.Config, err = load(); err == nil {
		return runDaemon(ctx, p, o)
	}
	var problems config.Problems
	if !errors.As(err, &problems) {
		return err
	}
	last, copied, lastErr := config.LoadLastGood(path, p.Env)
	if lastErr != nil {
		return err
	}
	if observe {
		last.ObserveAll()
	}
	o.Config, o.Source.LastGood = last, true
	for _, x := range problems {
		o.Source.Problems = append(o.Source.Problems, x.String())
	}
	newLogger(p.Err, p.Err).Error("the configuration has problems: running by the one that ran before (see tailban check)",
		"path", path, "running", copied, "problems", o.Source.Problems)
	return runDaemon(ctx, p, o)
}

// watch makes the built-in configuration one for the files: with their format
// found out, and state that is gone afterwards.
func watch(cfg *config.Config, files []string) (cleanup func(), err error) {
	l := &cfg.Logs[0]
	for _, f := range files {
		abs, err := filepath.Abs(f)
		if err != nil {
			return nil, err
		}
		l.Files = append(l.Files, abs)
	}
	if l.Format, err = replay.Format(l.Files); err != nil {
		return nil, err
	}
	if cfg.StateDir, err = os.MkdirTemp("", "tailban-observe-"); err != nil {
		return nil, fmt.Errorf("make a folder for the state: %w", err)
	}
	return func() { os.RemoveAll(cfg.StateDir) }, nil
}

func runDaemon(ctx context.Context, p *Process, o tailband.Options) error {
	out := newLogWriter(p.Err)
	go out.run(newLogger(p.Err, p.Err))
	defer out.close()
	o.Log = newLogger(p.Err, out)
	for _, w := range o.Config.Warnings() {
		o.Log.Warn("configuration", "problem", w.String())
	}
	var err error
	if o.Host, err = os.Hostname(); err != nil {
		o.Host = "localhost"
	}
	o.Version = versionText(p.Version)
	o.Paths = guard.HostPaths()
	o.Stdin, _ = p.In.(*os.File)
	if o.Sockets, err = source.Activated(); err != nil {
		o.Log.Error("sockets that the service manager has passed can't be used", "err", err)
	}
	o.Manager = tailband.ManagerOf(o.Log)
	return tailband.Run(ctx, o)
}

// newLogger logs text if the end of the log is a terminal, JSON otherwise. It
// writes to the end by way of w.
func newLogger(end io.Writer, w io.Writer) *slog.Logger {
	if f, ok := end.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}
