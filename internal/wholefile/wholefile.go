// Package wholefile replaces files as a whole.
package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write puts data into a file of mode 0600, in the place of the one before,
// durably: a crash leaves the old one or the new one, and one file path.new at
// most. A symbolic link at path is replaced, not followed. The folder must
// exist. It takes as long as the disk does.
func Write(path string, data []byte) error {
	next := path + ".new"
	// What is there may be a second name of any other file: it is not written to, and
	// not given away.
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what a crash left: %w", err)
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	giveToOwner(f, filepath.Dir(path))
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		os.Remove(next)
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename in the folder durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder %s: %w", path, err)
	}
	return nil
}

// giveToOwner gives a file that root has just made to the owner of its folder, so
// that a daemon that somebody has run by hand leaves nothing that the service's user
// can't read. It is never for a file that was there: whoever owns the folder could
// have put any file of root's there, and how many names it has changes at will. That
// it fails is no reason not to write.
func giveToOwner(f *os.File, dir string) {
	if os.Geteuid() != 0 {
		return
	}
	folder, err := os.Stat(dir)
	if err != nil {
		return
	}
	if to, ok := folder.Sys().(*syscall.Stat_t); ok && to.Uid != 0 {
		_ = f.Chown(int(to.Uid), int(to.Gid))
	}
}
