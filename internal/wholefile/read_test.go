package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		put  func(path string) error
		want string // of the error; "": there is none
	}{
		"written":  {func(path string) error { return Write(path, []byte("hello")) }, ""},
		"nothing":  {func(string) error { return nil }, "no such file"},
		"at limit": {func(path string) error { return Write(path, make([]byte, 10)) }, ""},
		"large":    {func(path string) error { return Write(path, make([]byte, 11)) }, "is larger than 10 bytes"},
		"folder":   {func(path string) error { return os.Mkdir(path, 0o700) }, "is no regular file"},
		"pipe":     {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is no regular file"},
		"link": {func(path string) error {
			return errors.Join(Write(path+".there", nil), os.Symlink(path+".there", path))
		}, "is a symbolic link"},
		"two names": {func(path string) error {
			return errors.Join(Write(path, nil), os.Link(path, path+".too"))
		}, "with one name"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := tt.put(path); err != nil {
				t.Fatal(err)
			}
			data, err := Read(path, 10)
			if tt.want == "" {
				if err != nil || len(data) == 0 {
					t.Errorf("%q, %v", data, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %q and the path", err, tt.want)
			}
			if name == "nothing" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v is not fs.ErrNotExist", err)
			}
		})
	}
}

// Who reads while the file is replaced gets the one or the other.
func TestReadWhileItIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for range 500 {
			if err := Write(path, []byte("hello")); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	for {
		if data, err := Read(path, 10); err != nil || string(data) != "hello" {
			t.Errorf("%q, %v", data, err)
			<-ended
			return
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
