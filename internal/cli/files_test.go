package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/config"
)

// warned checks the files of a log as an ordinary user, and returns what is
// said.
func warned(t *testing.T, files string) string {
	t.Helper()
	c, err := config.Parse("jails.toml", fmt.Appendf(nil, "[logs.a]\nfiles = %q\n[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n", files), nil)
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 1)
	go func() {
		if os.Geteuid() == 0 {
			// Only this thread becomes somebody else; it ends with the goroutine.
			runtime.LockOSThread()
			if err := errors.Join(unix.Setfsgid(65001), unix.Setfsuid(65001)); err != nil {
				t.Error(err)
			}
		}
		var lines []string
		for _, w := range checkFiles(c, "jails.toml", nil) {
			lines = append(lines, w.String())
		}
		out <- strings.Join(lines, "\n")
	}()
	select {
	case s := <-out:
		return s
	case <-time.After(10 * time.Second):
		t.Fatal("waits for something")
		return ""
	}
}

func TestFilesOfWhoeverRunsTheCheck(t *testing.T) {
	dir := t.TempDir()
	closed, good, pipe := filepath.Join(dir, "closed"), filepath.Join(dir, "good.log"), filepath.Join(dir, "pipe")
	secret := filepath.Join(closed, "secret.log")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Mkdir(closed, 0o700),
		os.WriteFile(good, nil, 0o600), os.WriteFile(secret, nil, 0o600), syscall.Mkfifo(pipe, 0o644),
		os.Chmod(closed, 0), os.Chmod(good, 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(closed, 0o700) })
	for _, tt := range []struct{ name, files, want string }{
		{"readable", good, ""},
		{"a pipe", pipe, pipe + " will not be read: not a regular file but a named pipe (a pipe is read with fifo = in place of files =)"},
		{"missing", dir + "/none.log", "no file matches " + dir + "/none.log: files are read as soon as they appear"},
		{"in a folder that can't be looked into", secret,
			secret + " can't be looked for: lstat " + secret + ": permission denied; run this check as root"},
		{"a pattern there", closed + "/*.log",
			closed + "/*.log can't be looked for: open " + closed + ": permission denied; run this check as root"},
		{"a folder below", closed + "/x/a.log",
			closed + "/x/a.log can't be looked for: stat " + closed + "/x: permission denied; run this check as root"},
	} {
		want := tt.want
		if want != "" {
			want = "jails.toml:2: logs.a.files: " + want
		}
		if got := warned(t, tt.files); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, want)
		}
	}
	if err := os.Chmod(good, 0); err != nil {
		t.Fatal(err)
	}
	want := "jails.toml:2: logs.a.files: you can't read it: open " + good + ": permission denied; --user tells whether the service can"
	if got := warned(t, good); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
