package source

import (
	"fmt"
	"os"
	"syscall"
)

// identity is what stays the same when a file is renamed, and differs when
// another one is put in its place. The kernel may give the number of a deleted
// file to a new one, which is why positions carry a head as well.
type identity struct {
	dev, ino uint64
}

func (p Position) identity() identity { return identity{p.Dev, p.Ino} }

func (f *File) identity() identity { return identity{f.Dev, f.Ino} }

// identify takes the identity of a regular file; others can't be followed.
func identify(fi os.FileInfo) (identity, error) {
	if !fi.Mode().IsRegular() {
		return identity{}, fmt.Errorf("not a regular file but %s", kind(fi.Mode()))
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, fmt.Errorf("no inode number in %T", fi.Sys())
	}
	return identity{uint64(st.Dev), st.Ino}, nil
}

func kind(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a named pipe"
	case m&os.ModeSocket != 0:
		return "a socket"
	case m&os.ModeDevice != 0:
		return "a device"
	}
	return m.String()
}
