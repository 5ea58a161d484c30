// Command demo shows the main job, safely: in network namespaces of its own,
// a small web server that writes an access log, the daemon with the example
// configuration, an ordinary visitor and a client that floods. The host's
// firewall, files and network are not touched.
//
// With "cloudflare" it shows bans at Cloudflare's edge in the same way: a real nginx
// behind a proxy that does what the edge would, and a double of Cloudflare's API.
//
// Usage: demo [cloudflare] TAILBAN CONFIG
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// insideEnv marks the process that runs in namespaces of its own.
const insideEnv = "INSIDE_TAILBAN_DEMO"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	args, play, target := os.Args[1:], show, "run"
	if len(args) > 0 && args[0] == "cloudflare" {
		args, play, target = args[1:], showCloudflare, "run-cloudflare"
		if _, err := findNginx(); err != nil {
			return err
		}
	}
	if len(args) != 2 {
		return errors.New("usage: demo [cloudflare] TAILBAN CONFIG")
	}
	if os.Getenv(insideEnv) == "" {
		return reexec(ctx, target)
	}
	binary, err := filepath.Abs(args[0])
	if err != nil {
		return err
	}
	config, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	if err := hideHost(); err != nil {
		return err
	}
	return play(ctx, binary, config)
}

// reexec runs this program again in a network and a mount namespace of its
// own and, for an ordinary user, in a user namespace that allows these. target is what
// it is to make.
func reexec(ctx context.Context, target string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case errors.As(err, &exit):
		return errors.New("the demonstration failed, see above")
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EINVAL):
		return fmt.Errorf(`network namespaces can't be made here: %w
demo: hint: run it as root (sudo make %s), or let users make them (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces),
demo: hint: or watch a log of your own without enforcing anything: make run LOG=/var/log/nginx/access.log`, err, target)
	}
	return err
}

// hideHost puts empty file systems over the folders that the example
// configuration names, so that the daemon runs on it as it is. Only this
// process and its children see them.
func hideHost() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host: %w", err)
	}
	for _, dir := range []string{"/var/log", "/var/lib"} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("cover %s: %w", dir, err)
		}
	}
	return os.Mkdir("/var/log/nginx", 0o755)
}
