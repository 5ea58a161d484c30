//go:build linux

package actions_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/netlab"
)

const nobody = 65534

// runChild is the whole program of a process started by runAs. It writes
// "ok", or what is wrong.
func runChild(name string) int {
	children := map[string]func(context.Context) error{
		"bans":        childBans,
		"lock":        childLock,
		"squat":       childSquat,
		"squatAsRoot": childSquatAsRoot,
		"iptables":    childIptables,
		"legacy":      childLegacy,
		"prepare":     childPrepareLegacy,
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := children[name](ctx); err != nil {
		fmt.Print(err)
		return 0
	}
	fmt.Print("ok")
	return 0
}

// childBans takes an action through all that it does.
func childBans(ctx context.Context) (err error) {
	if os.Geteuid() == 0 {
		return errors.New("the child is root")
	}
	n := actions.NewNftables(actions.NftablesOptions{})
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.Prepare(ctx); err != nil {
		if errors.Is(err, actions.ErrPermanent) {
			return fmt.Errorf("permanent: %w", err)
		}
		return err
	}
	var add []actions.Entry
	for i := range 5000 {
		add = append(add, ban(fmt.Sprintf("2001:db8:0:%x::/64", i), time.Hour))
	}
	if err := n.Apply(ctx, add, nil); err != nil {
		return err
	}
	got, err := n.List(ctx)
	if err != nil {
		return err
	}
	if len(got) != len(add) {
		return fmt.Errorf("%d bans listed, want %d", len(got), len(add))
	}
	existed, err := actions.Teardown(ctx, actions.NftablesOptions{})
	if err == nil && !existed {
		err = errors.New("nothing to tear down")
	}
	return err
}

func childLock(context.Context) error {
	l, err := actions.LockTable("tailban")
	if err != nil {
		return err
	}
	defer l.Close()
	if l.Warning() != "" {
		return errors.New("warning: " + l.Warning())
	}
	return nil
}

// childSquat takes the lock and keeps it until its standard input ends.
func childSquat(context.Context) error {
	l, err := actions.LockTable("tailban")
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Print("locked\n")
	_, err = os.Stdin.Read(make([]byte, 1))
	return err
}

// childSquatAsRoot squats in a user namespace of its own, as root of it.
func childSquatAsRoot(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = []string{childEnv + "=squat"}
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", noUserNamespace, err)
	}
	return cmd.Wait()
}

const noUserNamespace = "a user can't make a user namespace here"

// child is this test binary as a process of user nobody, with no capability
// or CAP_NET_ADMIN alone, and no environment to find programs by.
func child(t *testing.T, name string, netAdmin bool) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start a process as another user")
	}
	// The path of the binary may lead through directories closed to others.
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = []string{childEnv + "=" + name, "PATH=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if netAdmin {
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	}
	return cmd
}

// runAs runs a child inside a namespace and returns what it says.
func runAs(t *testing.T, ns *netlab.NS, name string, netAdmin bool) string {
	t.Helper()
	return run(t, ns, child(t, name, netAdmin))
}

func run(t *testing.T, ns *netlab.NS, cmd *exec.Cmd) string {
	t.Helper()
	out := new(strings.Builder)
	cmd.Stdout = out
	start(t, ns, cmd)
	check(t, cmd.Wait())
	return out.String()
}

// start skips where root is not root enough, as in most user namespaces.
func start(t *testing.T, ns *netlab.NS, cmd *exec.Cmd) {
	t.Helper()
	err := ns.Start(cmd)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		t.Skip("needs to start a process as another user: ", err)
	}
	check(t, err)
}

// The child has CAP_NET_ADMIN alone, and could not find a program to call.
func TestOnlyNetAdminIsNeeded(t *testing.T) {
	t.Parallel()
	if out := runAs(t, newNS(t), "bans", true); out != "ok" {
		t.Error(out)
	}
}

func TestWithoutNetAdmin(t *testing.T) {
	t.Parallel()
	out := runAs(t, newNS(t), "bans", false)
	for _, part := range []string{"permanent: ", "operation not permitted", "CAP_NET_ADMIN", "root", "systemd"} {
		if !strings.Contains(out, part) {
			t.Errorf("the error does not say %q: %s", part, out)
		}
	}
}

func childIptables(ctx context.Context) error {
	return childIptablesOf(ctx, actions.IptablesOptions{Variant: actions.VariantNft})
}

func childLegacy(ctx context.Context) error {
	return childIptablesOf(ctx, actions.IptablesOptions{Variant: actions.VariantLegacy})
}

func childIptablesOf(ctx context.Context, opt actions.IptablesOptions) (err error) {
	if os.Geteuid() == 0 {
		return errors.New("the child is root")
	}
	a := actions.NewIptables(opt)
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.Prepare(ctx); err != nil {
		if errors.Is(err, actions.ErrPermanent) {
			return fmt.Errorf("permanent: %w", err)
		}
		return err
	}
	if err := a.Apply(ctx, []actions.Entry{ban("192.0.2.1/32", time.Hour)}, nil); err != nil {
		return err
	}
	if _, held, err := a.Held(ctx, pfx("192.0.2.1/32")); err != nil || !held {
		return fmt.Errorf("held %t, %w", held, err)
	}
	existed, err := actions.TeardownIptables(ctx, opt)
	if err == nil && !existed {
		err = errors.New("nothing to tear down")
	}
	return err
}

// childPrepareLegacy tries as root, with less than root usually has.
func childPrepareLegacy(ctx context.Context) error {
	a := actions.NewIptables(actions.IptablesOptions{Variant: actions.VariantLegacy})
	err := a.Prepare(ctx)
	if errors.Is(err, actions.ErrPermanent) {
		err = fmt.Errorf("permanent: %w", err)
	}
	return errors.Join(err, a.Close())
}
