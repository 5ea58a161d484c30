package access

import (
	"fmt"
	"io"
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
	search  rights = 1 // of a folder
	execute rights = 1 // of a file
	read    rights = 4
)

// Denied says which folder or file of a path keeps a user out.
type Denied struct {
	User string
	Path string // the folder or file, links resolved
	Dir  bool
	List bool // a folder that may be passed, but whose names may not be listed
	Run  bool // a file that may not be run

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
	case d.Run:
		what, right = "run the file", "rx" // x alone is enough for what is no script
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
func (u *User) Read(path string) error { return u.walk(path, read, Denied{}) }

// List reports likewise whether the user may list a folder and reach what is
// in it.
func (u *User) List(dir string) error { return u.walk(dir, read|search, Denied{List: true}) }

// Execute reports likewise whether the user may run a program.
func (u *User) Execute(path string) error {
	want := execute
	if isScript(path) {
		want |= read // by its interpreter
	}
	return u.walk(path, want, Denied{Run: true})
}

// isScript reports whether a program is for an interpreter to read.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [2]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == "#!"
}

// walk follows an absolute path to what must give the rights in want. as is what
// is said of it if it doesn't.
func (u *User) walk(path string, want rights, as Denied) error {
	at, err := follow(path, func(dir, _ string) error { return u.check(dir, search, Denied{}) })
	if err != nil {
		return err
	}
	return u.check(at, want, as)
}

// follow follows an absolute path, as the kernel does, and returns it without
// links. Each folder on the way is shown before a name is looked for in it.
func follow(path string, pass func(dir, name string) error) (real string, err error) {
	at, links := "/", 0
	rest := strings.Split(filepath.Clean(path), "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		if err := pass(at, name); err != nil {
			return "", err
		}
		next := filepath.Join(at, name) // ".." leads up, as at has no links
		info, err := os.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}

// check reports whether one folder or file gives the user the rights.
func (u *User) check(path string, want rights, as Denied) error {
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
	as.User, as.Path, as.Dir = u.Name, path, info.IsDir()
	as.mode, as.group, as.may = info.Mode(), groupName(st.Gid), a.allows(&member, st.Uid, st.Gid, want)
	return &as
}
