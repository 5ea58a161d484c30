package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/config"
)

// What the daemon will refuse is told before, whoever asks and for whomever.
func TestFilesThatWouldBeRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of others")
	}
	const stranger = 4242
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	holds := func(text string) func(path string) {
		return func(path string) { must(os.WriteFile(path, []byte(text), 0o644)) }
	}
	for _, tt := range []struct {
		name string
		make func(path string)
		want string // behind "will not be read: "
	}{
		{"ordinary", holds(""), ""},
		{"writable for everybody", func(p string) { holds("")(p); must(os.Chmod(p, 0o666)) }, "any user can write to a.log and so have anybody banned: chmod o-w (if nobody untrusted"},
		{"in a folder writable for everybody", func(p string) { holds("")(p); must(os.Chmod(filepath.Dir(p), 0o777)) }, "any user can replace a.log"},
		{"a stranger's link", func(p string) {
			holds("")(p + ".x")
			must(os.Symlink(p+".x", p))
			must(os.Lchown(p, stranger, stranger))
		}, "a symbolic link of user"},
		{"a folder", func(p string) { must(os.Mkdir(p, 0o755)) }, "not a regular file but a directory (files in it are named by a pattern, like *.log)"},
		{"a socket", func(p string) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			must(err)
			must(unix.Bind(fd, &unix.SockaddrUnix{Name: p}))
			must(unix.Close(fd))
		}, "not a regular file but a socket (a socket is read with syslog ="},
		{"a device", func(p string) { must(os.Symlink("/dev/null", p)) }, "not a regular file but a device (a log is a regular file)"},
		{"a pipe", func(p string) { must(syscall.Mkfifo(p, 0o644)) }, "not a regular file but a named pipe"},
		{"compressed", holds("\x1f\x8b\x08"), "it holds no lines of text: it is compressed (gzip)"},
		{"UTF-16", holds("\xff\xfea\x00\n\x00"), "it holds no lines of text: it is text in UTF-16"},
		{"a program", holds("\x7fELF\x02"), "it holds no lines of text: it is a program"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			must(os.Chmod(dir, 0o755))
			must(os.Chmod(filepath.Dir(dir), 0o755))
			path := filepath.Join(dir, "a.log")
			tt.make(path)
			for _, user := range []*access.User{nil, {Name: "65001", UID: 65001}} {
				for _, files := range []string{path, filepath.Join(dir, "a*.log")} {
					for _, insecure := range []bool{false, true} {
						c, err := config.Parse("jails.toml", fmt.Appendf(nil, "[logs.a]\nfiles = %q\nallow_insecure = %v\n[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n", files, insecure), nil)
						must(err)
						var got []string
						for _, w := range checkFiles(c, "/dev/null", user) {
							got = append(got, w.String())
						}
						want := "jails.toml:2: logs.a.files: " + path + " will not be read: " + tt.want
						if tt.want == "" || insecure && strings.Contains(tt.want, "user") {
							if len(got) > 0 {
								t.Errorf("%v, %s, insecure %v: got %q", user, files, insecure, got)
							}
						} else if len(got) != 1 || !strings.HasPrefix(got[0], want) {
							t.Errorf("%v, %s, insecure %v: got %q, want %q", user, files, insecure, got, want)
						}
					}
				}
			}
		})
	}
}
