package wholefile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "x"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("what a crash left, and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"first", "second"} {
		if i > 0 { // a second name of another file, which isn't written to
			if err := os.Link(other, path+".new"); err != nil {
				t.Fatal(err)
			}
		}
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != text || info.Mode() != 0o600 {
			t.Errorf("holds %q with mode %v, want %q", got, info.Mode(), text)
		}
	}
	if got, _ := os.ReadFile(other); string(got) != "theirs" {
		t.Errorf("a link was followed: %q", got)
	}
	if names, _ := os.ReadDir(dir); len(names) != 2 {
		t.Errorf("left are %v", names)
	}
	if err := Write(filepath.Join(dir, "none", "x"), nil); err == nil {
		t.Error("a folder that isn't there is no error")
	}
}

// What root makes in the folder of somebody else is his.
func TestWriteAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	for _, owner := range []uint32{0, 4711} {
		if err := os.Chown(dir, int(owner), int(owner)); err != nil {
			t.Fatal(err)
		}
		if err := Write(path, nil); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != owner || st.Gid != owner {
			t.Errorf("the file in a folder of %d is of %d, %d", owner, st.Uid, st.Gid)
		}
	}
}
