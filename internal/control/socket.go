package control

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	backlog = 64

	// maxSocketPath is what fits into sun_path (unix(7)) with its final zero.
	maxSocketPath = 107

	// defaultGroup may look, where there is such a group.
	defaultGroup = "tailban"

	ownGroup = -1
)

// access is who may connect to a socket.
type access struct {
	mode  fs.FileMode
	gid   int
	group string // its name, when it was asked for

	// closed is the mode if the group can't be given to the socket.
	closed fs.FileMode
}

func (s *Server) statusAccess() access {
	a := access{mode: 0o660, gid: ownGroup, closed: 0o660}
	if s.StatusGroup != "" {
		return a.withGroup(s.StatusGroup, StatusSocket, s.Log)
	}
	if _, err := user.LookupGroup(defaultGroup); err == nil {
		return a.withGroup(defaultGroup, StatusSocket, s.Log)
	}
	return a
}

// controlAccess lets nobody in by accident: no group, no group's rights.
func (s *Server) controlAccess() access {
	a := access{mode: 0o600, gid: ownGroup, closed: 0o600}
	if s.ControlGroup == "" {
		return a
	}
	a.mode = 0o660
	return a.withGroup(s.ControlGroup, ControlSocket, s.Log)
}

func (a access) withGroup(name, socket string, log *slog.Logger) access {
	g, err := user.LookupGroup(name)
	if err == nil {
		a.gid, err = strconv.Atoi(g.Gid)
	}
	if err != nil {
		log.Warn("there is no such group; its members can't use the socket", "socket", socket, "group", name, "err", err)
		a.mode, a.gid = a.closed, ownGroup
		return a
	}
	a.group = name
	return a
}

// socket listens at a path in a socketDir.
type socket struct {
	*net.UnixListener
	path   string
	made   fs.FileInfo // to know it again
	remove func(*slog.Logger)
}

// listen makes a socket, in place of one that nobody listens on any more. The
// lock of the directory keeps other daemons from doing the same.
func (d *socketDir) listen(name string, a access, log *slog.Logger) (*socket, error) {
	path := filepath.Join(d.path, name)
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the path %s is too long for a socket: %d bytes at most (take a shorter runtime_dir)", path, maxSocketPath)
	}
	if err := d.free(name); err != nil {
		return nil, err
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := d.bind(path, name, a, log)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	s := &socket{UnixListener: l, path: path}
	if s.made, err = d.root.Lstat(name); err != nil {
		l.Close()
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	var once sync.Once
	s.remove = func(log *slog.Logger) { once.Do(func() { s.unlink(log) }) }
	return s, nil
}

// free fails if name is there and anything but a socket that nobody listens
// on.
func (d *socketDir) free(name string) error {
	path := filepath.Join(d.path, name)
	info, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at what is at the socket's path: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is no socket: tailban has not made it and leaves it alone (remove it, or take another runtime_dir)", path)
	}
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		conn.Close()
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, unix.EAGAIN): // its backlog is full: somebody is there
		return fmt.Errorf("see whether somebody listens on %s: %w", path, err)
	}
	return fmt.Errorf("another daemon listens on %s (stop it, or give this one a runtime_dir of its own)", path)
}

// bind makes a listening socket. Nobody can connect before listen(2), so its
// rights are right from the first instant, whatever the umask.
func (d *socketDir) bind(path, name string, a access, log *slog.Logger) (*net.UnixListener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close() // the listener has a copy
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	mode := a.mode
	if a.gid != ownGroup {
		if err := d.give(name, a.gid); err != nil {
			mode = a.closed
			log.Warn("can't give the socket to its group, whose members can't use it",
				"socket", name, "group", a.group, "err", err,
				"hint", "the daemon's user has to be a member of it (SupplementaryGroups= in the unit), and its unit has to allow chown (SystemCallFilter=@chown)")
		}
	}
	err = d.root.Chmod(name, mode)
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	var l net.Listener
	if err == nil {
		l, err = net.FileListener(f)
	}
	if err != nil {
		d.root.Remove(name)
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// give makes a file one of a group. Sandboxes may bar the call, so it isn't made
// without need.
func (d *socketDir) give(name string, gid int) error {
	info, err := d.root.Lstat(name)
	if err != nil {
		return err
	}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Gid == uint32(gid) {
		return nil
	}
	return d.root.Lchown(name, -1, gid)
}

// unlink removes the socket if it is still the one that was made.
func (s *socket) unlink(log *slog.Logger) {
	now, err := os.Lstat(s.path)
	if err == nil && !os.SameFile(now, s.made) {
		err = errors.New("it is not the one that was made")
	}
	if err == nil {
		err = os.Remove(s.path)
	}
	if err != nil {
		log.Warn("can't remove the socket", "socket", s.path, "err", err)
	}
}
