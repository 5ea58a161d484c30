package access

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// list encodes an access control list: tag, rights and id, three numbers each.
func list(entries ...uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for ; len(entries) > 0; entries = entries[3:] {
		b = binary.LittleEndian.AppendUint16(b, uint16(entries[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(entries[1]))
		b = binary.LittleEndian.AppendUint32(b, entries[2])
	}
	return b
}

func TestACL(t *testing.T) {
	const none = ^uint32(0)
	b := list(tagOwner, 6, none, tagUser, 4, 1001, tagUser, 0, 1002, tagGroup, 0, none, tagGroups, 4, 2001, tagMask, 4, none, tagOther, 4, none)
	a, err := parseACL(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		u    User
		want bool
	}{
		{"owner", User{UID: 1000, Groups: []uint32{1}}, true},
		{"a user with an entry", User{UID: 1001, Groups: []uint32{1}}, true},
		{"a user whose entry gives nothing", User{UID: 1002, Groups: []uint32{2001}}, false},
		{"in a group with an entry", User{UID: 1003, Groups: []uint32{1, 2001}}, true},
		{"in the file's group, which has nothing", User{UID: 1003, Groups: []uint32{2000}}, false},
		{"in both", User{UID: 1003, Groups: []uint32{2000, 2001}}, true},
		{"in neither", User{UID: 1003, Groups: []uint32{1}}, true},
	} {
		if got := a.allows(&tt.u, 1000, 2000, read); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for _, bad := range [][]byte{nil, b[:3], b[:len(b)-1], append([]byte{9, 0, 0, 0}, b[4:]...)} {
		if _, err := parseACL(bad); err == nil {
			t.Errorf("%x: no error", bad)
		}
	}
}

// What would help is what the report names.
func TestDenied(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	dir := openDir(t)
	inner := filepath.Join(dir, "logs")
	file := filepath.Join(inner, "access.log")
	link := filepath.Join(dir, "link.log")
	must(t, os.Mkdir(inner, 0o700))
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Symlink("logs/access.log", link))
	u := User{Name: "tailban", UID: 65001, Groups: []uint32{65001}}
	for _, tt := range []struct {
		dir, file fs.FileMode
		path      string
		want      string
	}{
		{0o755, 0o644, file, ""},
		{0o755, 0o644, link, ""},
		{0o711, 0o604, file, ""},
		{0o750, 0o644, file, "user tailban may not look into the folder " + inner + " (drwxr-x---, group 65002): " +
			"group 65002 may, so make the user a member of it (SupplementaryGroups=65002 in the unit)"},
		{0o700, 0o644, link, "user tailban may not look into the folder " + inner + " (drwx------, group 65002): " +
			"setfacl -m u:tailban:x " + inner + " would let it"},
		{0o755, 0o640, link, "user tailban may not read the file " + file + " (-rw-r-----, group 65002): " +
			"group 65002 may, so make the user a member of it (SupplementaryGroups=65002 in the unit)"},
		{0o755, 0o600, file, "user tailban may not read the file " + file + " (-rw-------, group 65002): " +
			"setfacl -m u:tailban:r " + file + " would let it"},
	} {
		must(t, errors.Join(os.Chmod(inner, tt.dir), os.Chmod(file, tt.file), os.Chown(inner, 0, 65002), os.Chown(file, 0, 65002)))
		got := ""
		if err := u.Read(tt.path); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%v, %v:\ngot  %s\nwant %s", tt.dir, tt.file, got, tt.want)
		}
		if tt.want != "" {
			member := User{UID: 65001, Groups: []uint32{65001, 65002}}
			if err := member.Read(tt.path); (err == nil) != strings.Contains(tt.want, "member") {
				t.Errorf("%v, %v: a member of the group: %v", tt.dir, tt.file, err)
			}
		}
	}
	must(t, os.Chmod(file, 0o644))
	if err := u.Execute(file); err == nil || err.Error() != "user tailban may not run the file "+file+" (-rw-r--r--, group 65002): setfacl -m u:tailban:rx "+file+" would let it" {
		t.Errorf("run: %v", err)
	}
	must(t, os.Chmod(inner, 0o711))
	want := "user tailban may not list the folder " + inner + " (drwx--x--x, group 65002): setfacl -m u:tailban:rx " + inner + " would let it"
	if err := u.List(inner); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	root := User{Name: "root"}
	if err := root.Read(file); err != nil {
		t.Errorf("root: %v", err)
	}
	if err := u.Read(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that isn't there: %v", err)
	}
	loop := filepath.Join(dir, "loop")
	must(t, os.Symlink("loop", loop))
	if err := u.Read(loop); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link to itself: %v", err)
	}
}

// The answer is the kernel's, for any modes, owners, lists and links.
func TestAsTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may become others")
	}
	r := rand.New(rand.NewPCG(1, 2))
	dir := openDir(t)
	ids := []uint32{65001, 65002, 65003}
	pick := func() int { return int(ids[r.IntN(len(ids))]) }
	// Mostly enough, or nearly no path would be open.
	mode := func() fs.FileMode {
		m := fs.FileMode(r.IntN(0o1000))
		if r.IntN(3) > 0 {
			m |= 0o555
		}
		return m
	}
	put := func(path string) {
		must(t, errors.Join(os.Chown(path, pick(), pick()), os.Chmod(path, mode())))
		if r.IntN(3) > 0 {
			return
		}
		n := func() uint32 { return uint32(r.IntN(8)) }
		const none = ^uint32(0)
		err := unix.Setxattr(path, aclAttr, list(tagOwner, n(), none, tagUser, n(), 65001, tagGroup, n(), none,
			tagGroups, n(), 65002, tagMask, n(), none, tagOther, n(), none), 0)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			t.Fatal(err)
		}
	}
	var files []string
	for i := range 150 {
		a := filepath.Join(dir, fmt.Sprint(i))
		b := filepath.Join(a, "b")
		file := filepath.Join(b, "file")
		link := filepath.Join(a, "link")
		must(t, errors.Join(os.MkdirAll(b, 0o755), os.WriteFile(file, nil, 0o644)))
		must(t, os.Symlink([]string{"b/file", file, "../" + fmt.Sprint(i) + "/./b/../b/file"}[r.IntN(3)], link))
		put(file)
		put(b)
		put(a)
		files = append(files, file, link)
	}
	open := 0
	for _, u := range []User{
		{UID: 65001, Groups: []uint32{65001}},
		{UID: 65009, Groups: []uint32{65009}},
		{UID: 65009, Groups: []uint32{65002, 65003}},
		{UID: 65002, Groups: []uint32{65009, 65003}},
	} {
		for i, want := range readableAs(t, &u, files) {
			err := u.Read(files[i])
			if (err == nil) != want {
				t.Errorf("user %d, groups %v, %s: %v, but the kernel says %v", u.UID, u.Groups, files[i], err, want)
			}
			if want {
				open++
			}
		}
	}
	if total := 4 * len(files); open < total/20 || open > total*19/20 {
		t.Errorf("%d of %d can be read: that tests little", open, total)
	}
}

// readableAs asks the kernel which files a user can open.
func readableAs(t *testing.T, u *User, files []string) []bool {
	t.Helper()
	out := make(chan []bool)
	go func() {
		defer close(out)
		// Only this thread becomes somebody else; it ends with the goroutine.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(u.Groups)), uintptr(unsafe.Pointer(&u.Groups[0])), 0); errno != 0 {
			t.Error(errno)
			return
		}
		if err := errors.Join(unix.Setfsgid(int(u.Groups[0])), unix.Setfsuid(int(u.UID))); err != nil {
			t.Error(err)
			return
		}
		can := make([]bool, len(files))
		for i, name := range files {
			if f, err := os.Open(name); err == nil {
				can[i] = true
				f.Close()
			}
		}
		out <- can
	}()
	return <-out
}

// openDir makes a folder that everybody can get into.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzACL checks that any attribute is read or refused, and that a list never
// gives more than its entries do.
func FuzzACL(f *testing.F) {
	const none = ^uint32(0)
	f.Add(list(tagOwner, 6, none, tagGroup, 4, none, tagOther, 0, none))
	f.Add(list(tagUser, 4, 65001, tagGroups, 5, 65002, tagMask, 4, none, tagOther, 7, none))
	f.Add([]byte{2, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseACL(b)
		if err != nil {
			return
		}
		given := a.owner | a.group | a.other
		for _, n := range append(a.users, a.groups...) {
			given |= n.rights
		}
		for _, u := range []User{{UID: 1}, {UID: 65001, Groups: []uint32{65002}}, {UID: 2, Groups: []uint32{2, 65002}}} {
			for _, want := range []rights{read, search, read | search} {
				if a.allows(&u, 1, 2, want) && given&want != want {
					t.Errorf("user %d gets %o of a list that gives %o", u.UID, want, given)
				}
			}
		}
	})
}
