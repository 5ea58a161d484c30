package config

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// usedPrograms is a list with one action that has programs.
const usedPrograms = `[{"Action":{"Name":"x","Type":"command","Command":{"Ban":["/bin/true"],"Unban":["/bin/true"],"Batch":1}}}]`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Programs are run for a list alone that nobody else can have written, or put
// there.
func TestPlacesOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to have files of others")
	}
	for name, x := range map[string]struct {
		change func(dir, file string) error
		ours   bool
	}{
		"our own":                  {func(dir, file string) error { return nil }, true},
		"folder of another user":   {func(dir, _ string) error { return os.Chown(dir, 65534, 65534) }, false},
		"file of another user":     {func(_, file string) error { return os.Chown(file, 65534, 65534) }, false},
		"folder others may change": {func(dir, _ string) error { return os.Chmod(dir, 0o777) }, false},
		"file others may change":   {func(_, file string) error { return os.Chmod(file, 0o666) }, false},
		"way there of another user": {func(dir, _ string) error {
			return os.Chown(filepath.Dir(dir), 65534, 65534)
		}, false},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		file := filepath.Join(dir, placesFile)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, file, usedPrograms)
		if err := x.change(dir, file); err != nil {
			t.Fatal(err)
		}
		u, err := LoadPlaces(dir)
		if err != nil || len(u.Places) != 1 {
			t.Errorf("%s: %d places, %v", name, len(u.Places), err)
		}
		if (u.Foreign == nil) != x.ours {
			t.Errorf("%s: foreign: %v", name, u.Foreign)
		}
	}
}

// What is no file of a daemon's is not read, and not waited for.
func TestPlacesThatAreNoList(t *testing.T) {
	for name, x := range map[string]struct {
		make func(file string) error
		want string
	}{
		"link": {func(file string) error {
			write(t, file+".other", usedPrograms)
			return os.Symlink(file+".other", file)
		}, "is a symbolic link"},
		"second name": {func(file string) error {
			write(t, file+".other", usedPrograms)
			return os.Link(file+".other", file)
		}, "is no regular file with one name"},
		"pipe":   {func(file string) error { return syscall.Mkfifo(file, 0o600) }, "is no regular file"},
		"folder": {func(file string) error { return os.Mkdir(file, 0o700) }, "is no regular file"},
		"large": {func(file string) error {
			write(t, file, "")
			return os.Truncate(file, maxPlaces+1)
		}, "is larger than 16 MiB"},
		"more behind it": {func(file string) error { write(t, file, usedPrograms+"[]"); return nil }, "after top-level value"},
	} {
		dir := t.TempDir()
		if err := x.make(filepath.Join(dir, placesFile)); err != nil {
			t.Fatal(err)
		}
		u, err := LoadPlaces(dir)
		if err == nil || !strings.Contains(err.Error(), x.want) || len(u.Places) != 0 {
			t.Errorf("%s: %d places, %v", name, len(u.Places), err)
		}
	}
}
