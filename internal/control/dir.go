package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file whose lock says that a daemon uses the directory. Only
// its owner can open it: a lock on the directory itself could be held by
// anybody who may read it.
const lockName = "control.lock"

// socketDir is a directory that nobody but root and this user can change.
type socketDir struct {
	path string
	root *os.Root
}

// openDir opens a directory for sockets, and makes it if it is missing.
func openDir(path string) (*socketDir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	err = os.Mkdir(path, 0o755)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the directory: %w (runtime_dir)", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open the directory: %w", err)
	}
	d := &socketDir{path: path, root: root}
	if made {
		// The umask may have closed it to those that the status socket is for.
		err = root.Chmod(".", 0o755)
	}
	if err == nil {
		err = d.trustworthy()
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// trustworthy fails if others could put sockets of theirs in place of ours.
func (d *socketDir) trustworthy() error {
	info, err := d.root.Stat(".")
	if err != nil {
		return fmt.Errorf("look at the directory: %w", err)
	}
	if uid := owner(info); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("the directory %s belongs to the user with the number %d, who could replace the sockets "+
			"(it has to belong to root or to the user of the daemon)", d.path, uid)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("everybody may write to the directory %s, and could replace the sockets (chmod o-w, or another runtime_dir)", d.path)
	}
	return nil
}

func (d *socketDir) Close() error { return d.root.Close() }

func owner(info fs.FileInfo) int {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}

// lockFile is held as long as a daemon has its sockets.
type lockFile struct{ f *os.File }

// lockDir fails if another daemon has its sockets in the directory.
func lockDir(d *socketDir) (*lockFile, error) {
	path := filepath.Join(d.path, lockName)
	// Not through root: that follows links inside the directory, whatever the flags.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file: remove it")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open the lock %s: %w", path, err)
	}
	// The file stays when the daemon ends: one that is removed could be
	// locked twice, by its old holder and under its new name.
	if err := flock(f); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another tailban uses %s (stop it, or give this one a runtime_dir of its own)", d.path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &lockFile{f}, nil
}

const (
	lockTries = 20
	lockPause = 50 * time.Millisecond
)

// flock waits a moment for whoever holds the lock: a child that is just being
// started has it until it runs its program, even if the holder has let go.
func flock(f *os.File) (err error) {
	for range lockTries {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		<-time.After(lockPause)
	}
	return err
}

// unlock may be called on nil, and again.
func (l *lockFile) unlock() {
	if l != nil {
		l.f.Close()
	}
}
