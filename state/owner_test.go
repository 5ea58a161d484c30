package state

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// What root makes in the folder of somebody else is his, whichever file it is.
func TestFilesAreOfTheFoldersOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tailban.db")
	s, _, err := Open(path, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	made, err := createFile(filepath.Join(dir, "other.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	if err := SaveWindows(filepath.Join(dir, "windows.snap"), &Windows{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tailban.db", "other.db" + newSuffix, "windows.snap"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 4711 || st.Gid != 4712 || info.Mode() != 0o600 {
			t.Errorf("%s is of %d, %d, mode %v", name, st.Uid, st.Gid, info.Mode())
		}
	}
}

// What was there before is nobody else's for that: the owner of the folder may have
// put it there.
func TestFilesThatAreThereStayWhose(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "tailban.db")
	s, _, err := Open(path, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.Chown(dir, 4711, 4712)); err != nil {
		t.Fatal(err)
	}
	if s, _, err = Open(path, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 {
		t.Errorf("root's file was given to %d", st.Uid)
	}
}
