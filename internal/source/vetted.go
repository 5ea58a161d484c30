package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Whoever can write lines of a log can have anybody banned. Usually these are
// root and the server; a log that any user of the machine can write to, or put
// another file in the place of, is refused.

// insecure says why a log is refused.
type insecure struct{ reason string }

func (e *insecure) Error() string { return e.reason }

func insecuref(format string, args ...any) error {
	return &insecure{fmt.Sprintf(format, args...)}
}

const maxLinks = 40 // as the kernel

// openSafely opens a log for reading. O_NONBLOCK: a named pipe put there since
// the look must not block us.
func (r *follower) openSafely(path string) (*os.File, error) {
	if r.o.AllowInsecure {
		return os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	}
	f, err := openVetted(path)
	if bad := new(insecure); err != nil && !errors.As(err, &bad) {
		err = &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, err
}

// vetter follows a path step by step, by descriptors, so that what was looked at
// is what is opened.
type vetter struct {
	dir    int // descriptor of the folder reached
	stat   unix.Stat_t
	at     string   // its name
	links  int      // followed so far
	owners []uint32 // of the links
	us     uint32
}

// openVetted opens a regular file unless strangers can write to it or decide
// which file it is.
func openVetted(path string) (*os.File, error) { return openVettedFor(path, uint32(os.Geteuid())) }

// openVettedFor does so as if the user with the number us did it.
func openVettedFor(path string, us uint32) (*os.File, error) {
	v := &vetter{dir: -1, us: us}
	defer v.leave()
	if err := v.enterRoot(); err != nil {
		return nil, err
	}
	steps := strings.Split(path, "/")
	for len(steps) > 0 {
		name := steps[0]
		steps = steps[1:]
		if name == "" || name == "." {
			continue
		}
		fd, err := unix.Openat(v.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		f, target, err := v.step(fd, name, len(steps) == 0)
		if f != nil || err != nil {
			return f, err
		}
		if target != "" {
			steps = append(strings.Split(target, "/"), steps...)
		}
	}
	return nil, unix.EISDIR
}

// step looks at what is called name and open, as a mere place, as fd, which it
// takes over. It returns the file to read, or where a link leads, or goes down
// into a folder.
func (v *vetter) step(fd int, name string, last bool) (f *os.File, target string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, "", errors.Join(err, unix.Close(fd))
	}
	if err := v.place(name, &st); err != nil {
		return nil, "", errors.Join(err, unix.Close(fd))
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		defer unix.Close(fd) //nolint:errcheck // nothing was written
		v.links++
		if v.links > maxLinks {
			return nil, "", unix.ELOOP
		}
		v.owners = append(v.owners, st.Uid)
		target, err = v.follow(fd, name)
		return nil, target, err
	case kind == unix.S_IFDIR && !last:
		v.enter(fd, &st, strings.TrimSuffix(v.at, "/")+"/"+name)
		return nil, "", nil
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if !last {
		return nil, "", unix.ENOTDIR
	}
	if err := v.file(name, &st); err != nil {
		return nil, "", err
	}
	f, err = v.open(name, &st)
	return f, "", err
}

func (v *vetter) enterRoot() error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	v.enter(fd, &st, "/")
	return nil
}

func (v *vetter) enter(fd int, st *unix.Stat_t, name string) {
	v.leave()
	v.dir, v.stat, v.at = fd, *st, name
}

func (v *vetter) leave() {
	if v.dir >= 0 {
		_ = unix.Close(v.dir) // nothing was written
	}
	v.dir = -1
}

// place looks at who could put something else in the place of name.
func (v *vetter) place(name string, st *unix.Stat_t) error {
	if v.stat.Mode&0o002 == 0 {
		return nil
	}
	if v.stat.Mode&unix.S_ISVTX == 0 {
		return insecuref("any user can replace %s: the folder %s is writable by everybody", name, v.at)
	}
	if st.Uid != 0 && st.Uid != v.stat.Uid && st.Uid != v.us {
		return insecuref("any user could have made %s, which belongs to user %d: the folder %s is writable by everybody", name, st.Uid, v.at)
	}
	return nil
}

// follow returns where a link leads to. Those of /proc lead to places and not
// to names, so the kernel follows them.
func (v *vetter) follow(fd int, name string) (string, error) {
	var fsys unix.Statfs_t
	if err := unix.Fstatfs(v.dir, &fsys); err != nil {
		return "", err
	}
	if fsys.Type == unix.PROC_SUPER_MAGIC {
		there, err := unix.Openat(v.dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		var st unix.Stat_t
		if err := unix.Fstat(there, &st); err != nil {
			return "", errors.Join(err, unix.Close(there))
		}
		v.enter(there, &st, strings.TrimSuffix(v.at, "/")+"/"+name)
		return "", nil
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	target := string(buf[:n])
	if strings.HasPrefix(target, "/") {
		return target, v.enterRoot()
	}
	return target, nil
}

// file looks at who can write to the file, and who led us there.
func (v *vetter) file(name string, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o002 != 0 {
		return insecuref("any user can write to %s and so have anybody banned: chmod o-w", name)
	}
	for _, owner := range v.owners {
		if owner != 0 && owner != st.Uid && owner != v.us {
			return insecuref("a symbolic link of user %d leads to %s, which belongs to user %d", owner, name, st.Uid)
		}
	}
	return nil
}

// open opens what was looked at.
func (v *vetter) open(name string, want *unix.Stat_t) (*os.File, error) {
	fd, err := unix.Openat(v.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	if st.Dev != want.Dev || st.Ino != want.Ino {
		return nil, errors.Join(errors.New("it was replaced while it was opened"), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), strings.TrimSuffix(v.at, "/")+"/"+name), nil
}
