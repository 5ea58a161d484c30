package e2e

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/daemon"
)

// wedging is the client whose ban wedges the engine of TestInsideWedged, once.
const wedging = "203.0.113.250"

// slowStart has the start of TestInsideWedged take so long.
const slowStart = "TAILBAN_SLOW_START"

// wedge is a log that doesn't come back from that message, in the first process
// that has it, and takes its time for the last one of the start.
type wedge struct {
	slog.Handler
	once string // the file that says that it was there
	slow time.Duration
}

func (w wedge) Handle(ctx context.Context, r slog.Record) error {
	err := w.Handler.Handle(ctx, r)
	if r.Message == "running" {
		<-time.After(w.slow)
	}
	wedges := false
	r.Attrs(func(a slog.Attr) bool {
		wedges = wedges || r.Message == "banned" && a.Key == "client" && a.Value.String() == wedging
		return true
	})
	if wedges {
		if f, err := os.OpenFile(w.once, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			select {}
		}
	}
	return err
}

// TestInsideWedged is the daemon of TestInsideService whose engine hangs, or whose
// start is slow: the program itself has nothing that could be made to do so.
func TestInsideWedged(t *testing.T) {
	if os.Getenv(insideSystemd) == "" {
		t.Skip("runs inside of TestService")
	}
	slow, _ := time.ParseDuration(os.Getenv(slowStart)) // zero if there is none
	c, err := config.Load("/etc/tailban/jails.toml", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	if slow > 0 {
		c.ObserveAll() // the firewall is another daemon's
	}
	log := slog.New(wedge{slog.NewJSONHandler(os.Stderr, nil), filepath.Join(os.Getenv("STATE_DIRECTORY"), "wedged-once"), slow})
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	if err := daemon.Run(ctx, daemon.Options{Config: c, Log: log, Host: "here", Manager: daemon.ManagerOf(log)}); err != nil {
		t.Fatal(err)
	}
}
