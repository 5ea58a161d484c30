package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	tailband "github.com/tailban/tailban/internal/daemon"
	"github.com/tailban/tailban/internal/replay"
	"golang.org/x/term"
)

func newRun(p *Process, path *string) *cobra.Command {
	var observe bool
	c := &cobra.Command{
		Use:   "run [--observe FILE…]",
		Short: "Run the daemon in the foreground",
		Long: `Follow the configured logs, decide, and have bans enforced, until SIGTERM or
an interrupt. Bans stay in force when the daemon stops.

With --observe nothing is enforced, whatever the configuration says. With
--observe and log files no configuration is needed: the built-in jail watches
them, more than 50 requests in 60 seconds.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && (!observe || c.Flags().Changed("config")) {
				return usageError{errors.New("files are named on the command line only with --observe and without --config; otherwise the configuration names them")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := config.Builtin(), error(nil)
			if len(args) > 0 {
				cleanup, err := watch(cfg, args)
				if err != nil {
					return err
				}
				defer cleanup()
			} else if cfg, err = config.Load(*path, p.Env); err != nil {
				return err
			}
			if observe {
				cfg.ObserveAll()
			}
			return runDaemon(c.Context(), p, cfg)
		},
	}
	c.Flags().BoolVar(&observe, "observe", false, "decide and log, enforce nothing")
	return c
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

func runDaemon(ctx context.Context, p *Process, cfg *config.Config) error {
	out := newLogWriter(p.Err)
	go out.run(newLogger(p.Err, p.Err))
	defer out.close()
	log := newLogger(p.Err, out)
	for _, w := range cfg.Warnings() {
		log.Warn("configuration", "problem", w.String())
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	// Errors mean that no service manager listens.
	context.AfterFunc(ctx, func() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) })
	return tailband.Run(ctx, tailband.Options{
		Config: cfg, Log: log, Host: host,
		Ready: func() { _, _ = daemon.SdNotify(false, daemon.SdNotifyReady) },
	})
}

// newLogger logs text if the end of the log is a terminal, JSON otherwise. It
// writes to the end by way of w.
func newLogger(end io.Writer, w io.Writer) *slog.Logger {
	if f, ok := end.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}
