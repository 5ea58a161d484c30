package access

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links one path may lead through, as in the
// kernel.
const maxLinks = 40

// rights are permission bits, as in one octal digit of a file's mode.
type rights uint8

const (
	search rights = 1
	read   rights = 4
)

// Denied says which folder or file of a path keeps a user out.
type Denied struct {
	User string
	Path string // the folder or file, links resolved
	Dir  bool
	List bool // a folder that may be passed, but whose names may not be listed

	mode  fs.FileMode
	group string
	may   bool // the group has the right that is missing
}

// Error says what is missing, and what would help.
func (d *Denied) Error() string {
	what, right := "read the file", "r"
	switch {
	case d.Dir && d.List:
		what, right = "list the folder", "rx"
	case d.Dir:
		what, right = "look into the folder", "x"
	}
	hint := fmt.Sprintf("setfacl -m u:%s:%s %s would let it", d.User, right, d.Path)
	if d.may {
		hint = fmt.Sprintf("group %s may, so make the user a member of it (SupplementaryGroups=%s in the unit)", d.group, d.group)
	}
	return fmt.Sprintf("user %s may not %s %s (%v, group %s): %s", d.User, what, d.Path, d.mode, d.group, hint)
}

// Read reports whether the user may read a file: nil, a *Denied, or the error
// that kept it from being found out. Capabilities that the user has, and file
// systems that only a service sees, are not known.
func (u *User) Read(path string) error { return u.walk(path, read, false) }

// List reports likewise whether the user may list a folder and reach what is
// in it.
func (u *User) List(dir string) error { return u.walk(dir, read|search, true) }

// walk follows an absolute path, as the kernel does, to what must give the
// rights in want.
func (u *User) walk(path string, want rights, list bool) error {
	at, links := "/", 0
	rest := strings.Split(filepath.Clean(path), "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		if err := u.check(at, search, false); err != nil {
			return err
		}
		next := filepath.Join(at, name) // ".." leads up, as at has no links
		info, err := os.Lstat(next)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return u.check(at, want, list)
}

// check reports whether one folder or file gives the user the rights.
func (u *User) check(path string, want rights, list bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("stat %s: the owner is not known here", path)
	}
	a, err := readACL(path, info.Mode().Perm())
	if err != nil {
		return err
	}
	if u.UID == 0 || a.allows(u, st.Uid, st.Gid, want) {
		return nil
	}
	member := User{UID: u.UID, Groups: append([]uint32{st.Gid}, u.Groups...)}
	return &Denied{
		User: u.Name, Path: path, Dir: info.IsDir(), List: list,
		mode: info.Mode(), group: groupName(st.Gid), may: a.allows(&member, st.Uid, st.Gid, want),
	}
}
