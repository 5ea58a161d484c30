package wholefile

import (
	"os"
	"path/filepath"
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
	for _, text := range []string{"first", "second"} {
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
