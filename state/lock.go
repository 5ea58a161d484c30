package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	lockTimeout = time.Second
	lockRetry   = 20 * time.Millisecond
)

// openLocked opens the file at path, creating it and its folder when missing,
// and takes the lock on it that bbolt uses too: flock(2), which belongs to
// the open file and ends with the process at the latest. Only who holds the
// lock on what path names now may replace it.
func openLocked(path string) (*os.File, error) {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(lockTimeout)
	defer timeout.Stop()
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		f, err := tryLock(path)
		if err != nil || f != nil {
			return f, err
		}
		select {
		case <-timeout.C:
			return nil, ErrLocked
		case <-retry.C:
		}
	}
}

// InUse reports whether somebody has the state file at path open. It changes
// nothing, and is false if there is no file.
func InUse(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, explainOpen(path, err)
	}
	defer f.Close() // which unlocks it
	free, err := flock(f)
	return !free && err == nil, err
}

// tryLock returns nil and no error if it is worth trying again.
func tryLock(path string) (*os.File, error) {
	f, err := openOrMake(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it was there a moment ago
	}
	if err != nil {
		return nil, explainOpen(path, err)
	}
	ok, err := lockCurrent(f, path)
	if err != nil || !ok {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openOrMake opens the file at path, or makes it: only then is it given to the owner
// of the folder.
func openOrMake(path string) (*os.File, error) {
	const flags = os.O_RDWR | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	f, err := os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, flags, 0)
	}
	if err == nil {
		giveToOwner(f, filepath.Dir(path))
	}
	return f, err
}

// lockCurrent locks f and reports whether that worked and path still names
// f: its last holder may have put another file in its place.
func lockCurrent(f *os.File, path string) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, errors.New("not a regular file; tailban keeps its state in a file of its own")
	}
	if locked, err := flock(f); err != nil || !locked {
		return false, err
	}
	now, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(info, now), err
}

// flock takes the lock if nobody has it.
func flock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, fmt.Errorf("lock: %w", err)
		}
	}
}

func unlock(f *os.File) error {
	return os.NewSyscallError("flock", syscall.Flock(int(f.Fd()), syscall.LOCK_UN))
}

// makeDir creates a private folder; one that exists keeps its mode.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create state folder: %w", err)
	}
	return nil
}

func explainOpen(path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err // the caller names the path
	}
	var hint string
	switch {
	case errors.Is(err, syscall.EISDIR):
		hint = "; move the folder away"
	case errors.Is(err, syscall.ELOOP):
		hint = "; it is a symbolic link: set state_dir to the folder it leads to instead"
	case errors.Is(err, fs.ErrPermission):
		hint = "; is the daemon running as the owner of " + filepath.Dir(path) + "?"
	case errors.Is(err, syscall.EROFS):
		hint = "; state_dir must be on a file system that can be written"
	}
	return fmt.Errorf("%w%s", err, hint)
}

// syncDir makes names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
