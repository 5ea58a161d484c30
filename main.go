// Command tailban bans clients that exceed limits in access logs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for timezone, on machines without it

	"github.com/tailban/tailban/internal/cli"
)

// version is set by the build.
var version = ""

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	code := cli.Main(ctx, cli.Process{
		Args:    os.Args[1:],
		Env:     os.Environ(),
		In:      os.Stdin,
		Out:     os.Stdout,
		Err:     os.Stderr,
		Version: version,
		Hangups: hangups,
	})
	stop()
	os.Exit(code)
}
