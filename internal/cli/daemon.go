package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/term"
	"github.com/tailban/tailban/parser"
)

// connection is how commands reach the daemon.
type connection struct {
	p         *Process
	config    *string // path
	socketDir string  // "": as the configuration says
}

// client talks to the daemon. Nothing is connected yet.
func (a *connection) client() *control.Client { return control.NewClient(a.dir()) }

// dir is where the sockets are.
func (a *connection) dir() string {
	if a.socketDir != "" {
		return a.socketDir
	}
	return config.RuntimeDir(*a.config, a.p.Env)
}

// answer shows what the daemon answered, to a person or as JSON.
func answer[T any](p *Process, asJSON bool, v *T, show func(*screen, *T)) error {
	if asJSON {
		return writeJSON(p.Out, v)
	}
	s := newScreen(p)
	show(s, v)
	return s.flush()
}

// jsonFlag adds --json to a command.
func jsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "the daemon's answer as JSON")
}

// durationFlag is a flag that takes a length of time as the configuration
// writes it. Zero is: not given.
type durationFlag struct{ time.Duration }

func (d *durationFlag) String() string {
	if d.Duration == 0 {
		return ""
	}
	return config.FormatDuration(d.Duration)
}

func (d *durationFlag) Set(s string) error {
	v, err := config.ParseDuration(s)
	if err != nil {
		return err
	}
	if v <= 0 {
		return errors.New("must be longer than nothing")
	}
	d.Duration = v
	return nil
}

func (d *durationFlag) Type() string { return "time" }

// target reads what a change is about. A single address stands for what a
// jail would ban, which for IPv6 is its network; how it was taken is said
// where it is not what was written.
func (a *connection) target(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return network(text)
	}
	addr, err := address(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	p := detector.TargetOf(addr)
	if !p.IsSingleIP() {
		a.say(fmt.Sprintf("%s is taken as its network %s; %s/%d is the address alone", addr, p, addr, addr.BitLen()))
	}
	return p, nil
}

// network reads an address or a range, as it is written.
func network(text string) (netip.Prefix, error) {
	p, ok := parser.ParsePrefix(text)
	switch {
	case !ok:
		return p, usageError{fmt.Errorf("%q is no address and no range like 203.0.113.0/24", text)}
	case p != p.Masked():
		// A slip of the pen must not become a ban of a network.
		return p, usageError{fmt.Errorf("%q has bits set behind the mask: is %s meant, or %s?", text, p.Masked(), p.Addr())}
	}
	return p, nil
}

// address reads a single address.
func address(text string) (netip.Addr, error) {
	a, ok := parser.ParseAddr([]byte(text))
	if !ok || strings.Contains(text, "%") {
		return a, usageError{fmt.Errorf("%q is no address", text)}
	}
	return a, nil
}

// say tells a person how what they wrote was taken.
func (a *connection) say(text string) {
	fmt.Fprintln(a.p.Err, "tailban:", text)
}

// exactArgs is cobra's check with an error of ours.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %s, but got %s", c.CommandPath(), what, plural(len(args), "argument"))}
		}
		return nil
	}
}

// errUnhealthy ends a check that has said all there is to say.
var errUnhealthy = errors.New("the daemon is not healthy")

// exitCode is what a command's error means to who started it.
func exitCode(err error) int {
	var e *control.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usageError{}):
		return exitUsage
	case errors.Is(err, errUnhealthy):
		return exitUnhealthy
	case errors.As(err, &e) && e.Code == control.CodeUnreachable:
		return exitNoDaemon
	}
	return exitError
}

// complain writes an error of the daemon, or of the way to it.
func complain(p *Process, e *control.Error) {
	for _, x := range e.Problems {
		fmt.Fprintln(p.Err, asWritten(x))
	}
	fmt.Fprintln(p.Err, "tailban:", term.Escape(e.Message))
	if e.Hint != "" {
		fmt.Fprintln(p.Err, "tailban: hint:", term.Escape(e.Hint))
	}
}

// asWritten makes a message about the configuration harmless, and leaves its
// backslashes as check shows them.
func asWritten(text string) string {
	parts := strings.Split(text, `\`)
	for i, x := range parts {
		parts[i] = term.Escape(x)
	}
	return strings.Join(parts, `\`)
}

// interrupted tells whether the person, or the system, ended a command.
func interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }
