package control

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// a group of every Debian machine, that root is not in
const someGroup, someGID = "nogroup", nobody

func fileOf(t testing.TB, dir, name string) (fs.FileMode, int) {
	t.Helper()
	info, err := os.Lstat(filepath.Join(dir, name))
	check(t, err)
	return info.Mode(), int(info.Sys().(*syscall.Stat_t).Gid)
}

// Not parallel: the umask is the process's.
func TestModes(t *testing.T) {
	for _, umask := range []int{0, 0o077} {
		for _, test := range []struct {
			name                  string
			statusGroup, ctlGroup string
			statusMode, ctlMode   fs.FileMode
			statusGID, ctlGID     int
			warnings              int
		}{
			{"plain", "", "", 0o660, 0o600, os.Getegid(), os.Getegid(), 0},
			{"groups", someGroup, someGroup, 0o660, 0o660, someGID, someGID, 0},
			{"no such groups", "no-such-1", "no-such-2", 0o660, 0o600, os.Getegid(), os.Getegid(), 2},
		} {
			t.Run(fmt.Sprintf("%s with umask %o", test.name, umask), func(t *testing.T) {
				if test.statusGroup == someGroup && os.Geteuid() != 0 {
					t.Skip("needs root, to give files to a group")
				}
				old := syscall.Umask(umask)
				defer syscall.Umask(old)
				var dir string
				r := serve(t, &fake{}, func(s *Server) {
					s.Dir = filepath.Join(s.Dir, "made")
					dir = s.Dir
					s.StatusGroup, s.ControlGroup = test.statusGroup, test.ctlGroup
				})
				if mode, _ := fileOf(t, dir, "."); mode.Perm() != 0o755 {
					t.Errorf("the directory is made with %v", mode)
				}
				for name, want := range map[string]fs.FileMode{StatusSocket: test.statusMode, ControlSocket: test.ctlMode, lockName: 0o600} {
					if mode, _ := fileOf(t, dir, name); mode.Perm() != want {
						t.Errorf("%s has mode %v, want %v", name, mode, want)
					}
				}
				for name, want := range map[string]int{StatusSocket: test.statusGID, ControlSocket: test.ctlGID} {
					if _, gid := fileOf(t, dir, name); gid != want {
						t.Errorf("%s is of group %d, want %d", name, gid, want)
					}
				}
				if got := len(r.log.said("there is no such group; its members can't use the socket")); got != test.warnings {
					t.Errorf("%d warnings, want %d: %s", got, test.warnings, r.log)
				}
			})
		}
	}
}

// The sandbox of a unit may bar chown: a socket that is of the group anyway is
// given to nobody.
func TestSocketIsOfItsGroup(t *testing.T) {
	d, err := openDir(t.TempDir())
	check(t, err)
	defer d.Close()
	changed := func(name string) (at syscall.Timespec) {
		info, err := os.Stat(filepath.Join(d.path, name))
		check(t, err)
		return info.Sys().(*syscall.Stat_t).Ctim
	}
	check(t, os.WriteFile(filepath.Join(d.path, "made"), nil, 0o600))
	was := changed("made")
	for now := was; now == was; now = changed("clock") { // it goes on in ticks
		check(t, os.WriteFile(filepath.Join(d.path, "clock"), []byte("x"), 0o600))
	}
	check(t, d.give("made", os.Getegid()))
	if is := changed("made"); is != was { // as after each chown
		t.Errorf("changed at %v, last before at %v", is, was)
	}
}

// At the end nothing is left but the lock, and a server can start again.
func TestStartAgain(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{})
	r.alive()
	r.stop()
	wantNames(t, r.dir, lockName)
	second := serve(t, &fake{}, func(s *Server) { s.Dir = r.dir })
	r.alive() // the same path
	second.stop()
	wantNames(t, r.dir, lockName)

	unused := NewServer(Options{Dir: r.dir, Daemon: &fake{}})
	check(t, unused.Listen())
	wantNames(t, r.dir, lockName, ControlSocket, StatusSocket)
	unused.Close()
	wantNames(t, r.dir, lockName)
}

func wantNames(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("in the directory are %v, want %v", got, names)
	}
}

func listenError(t testing.TB, dir string, parts ...string) {
	t.Helper()
	s := NewServer(Options{Dir: dir, Daemon: &fake{}})
	err := s.Listen()
	if err == nil {
		s.Close()
		t.Fatal("Listen works")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

func TestTwoServers(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{})
	listenError(t, r.dir, "another tailban uses "+r.dir, "runtime_dir")
	r.alive()
	// Even if somebody removes the lock.
	check(t, os.Remove(filepath.Join(r.dir, lockName)))
	listenError(t, r.dir, "another daemon listens on", "status.sock")
	r.alive()
}

// A socket of a daemon that was killed is replaced.
func TestStaleSockets(t *testing.T) {
	t.Parallel()
	dir := openTempDir(t)
	cmd := child("listen", dir)
	in, err := cmd.StdinPipe()
	check(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "listening\n" {
		t.Errorf("the child says %q", line)
	}
	listenError(t, dir, "another tailban")
	check(t, cmd.Process.Kill())
	cmd.Wait()
	wantNames(t, dir, lockName, ControlSocket, StatusSocket)

	_, err = NewClient(dir).Reload(t.Context())
	wantError(t, err, CodeUnreachable, "nobody listens at "+filepath.Join(dir, ControlSocket)+" any more")
	r := serve(t, &fake{}, func(s *Server) { s.Dir = dir })
	wantNames(t, dir, lockName, ControlSocket, StatusSocket)
	r.client = NewClient(dir)
	r.alive()
}

// What tailban has not made it neither follows nor removes.
func TestInTheWay(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]func(t *testing.T, path string){
		"file":      func(t *testing.T, path string) { check(t, os.WriteFile(path, []byte("dear"), 0o600)) },
		"directory": func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) },
		"fifo":      func(t *testing.T, path string) { check(t, syscall.Mkfifo(path, 0o600)) },
		"symlink to a socket": func(t *testing.T, path string) {
			to := filepath.Join(openTempDir(t), "s")
			l, err := net.Listen("unix", to)
			check(t, err)
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			l.Close() // stale, like what is replaced
			check(t, os.Symlink(to, path))
		},
		"symlink to nothing": func(t *testing.T, path string) { check(t, os.Symlink(filepath.Base(path)+"-target", path)) },
	} {
		for _, name := range []string{StatusSocket, ControlSocket, lockName} {
			if name == lockName && what == "file" {
				continue // is what it should be
			}
			t.Run(what+" at "+name, func(t *testing.T) {
				t.Parallel()
				dir := openTempDir(t)
				path := filepath.Join(dir, name)
				put(t, path)
				before, err := os.Lstat(path)
				check(t, err)
				listenError(t, dir, name)
				after, err := os.Lstat(path)
				if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() {
					t.Errorf("it is changed: %v, %v", after, err)
				}
				entries, err := os.ReadDir(dir)
				check(t, err)
				for _, e := range entries {
					if e.Name() != name && e.Name() != lockName {
						t.Errorf("%s is left behind", e.Name())
					}
				}
			})
		}
	}
}

// At its end a server leaves alone what has taken its socket's place.
func TestReplacedSocketStays(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{})
	path := filepath.Join(r.dir, StatusSocket)
	check(t, os.Remove(path))
	check(t, os.WriteFile(path, []byte("dear"), 0o600))
	r.stop()
	if text, err := os.ReadFile(path); err != nil || string(text) != "dear" {
		t.Errorf("the file is %q, %v", text, err)
	}
	if len(r.log.said("can't remove the socket")) != 1 {
		t.Errorf("the log does not say so: %s", r.log)
	}
}

func TestDirectories(t *testing.T) {
	t.Parallel()
	t.Run("open to everybody", func(t *testing.T) {
		t.Parallel()
		dir := openTempDir(t)
		check(t, os.Chmod(dir, 0o777|fs.ModeSticky))
		listenError(t, dir, "everybody may write", dir)
		wantNames(t, dir)
	})
	t.Run("of another", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			t.Skip("needs root, to give the directory away")
		}
		dir := openTempDir(t)
		check(t, os.Chown(dir, nobody, nobody))
		listenError(t, dir, "belongs to the user with the number "+strconv.Itoa(nobody))
		wantNames(t, dir)
	})
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(openTempDir(t), "f")
		check(t, os.WriteFile(path, nil, 0o600))
		listenError(t, path, "open the directory")
	})
	t.Run("no parent", func(t *testing.T) {
		t.Parallel()
		listenError(t, filepath.Join(openTempDir(t), "a", "b"), "make the directory", "runtime_dir")
	})
	t.Run("long", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(openTempDir(t), strings.Repeat("x", 100))
		listenError(t, dir, "too long for a socket", "shorter")
	})
	t.Run("just not too long", func(t *testing.T) {
		t.Parallel()
		dir := openTempDir(t)
		dir = filepath.Join(dir, strings.Repeat("x", maxSocketPath-len(dir)-len("//control.sock")))
		serve(t, &fake{}, func(s *Server) { s.Dir = dir })
		if _, err := NewClient(dir).Status(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Metrics come as they are, with their type, and so does what is in the way of that.
func TestMetrics(t *testing.T) {
	t.Parallel()
	var fail error
	r := serve(t, &fake{}, func(s *Server) {
		s.Metrics = func(context.Context) ([]byte, error) { return []byte("tailban_healthy 1\n"), fail }
	})
	for _, socket := range []string{StatusSocket, ControlSocket} {
		got := r.raw(socket, get("/metrics"))
		if !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.Contains(got, "Content-Type: "+MetricsType+"\r\n") || !strings.HasSuffix(got, "\r\n\r\ntailban_healthy 1\n") {
			t.Errorf("%s: %q", socket, got)
		}
	}
	fail = &Error{Code: CodeNotFound, Message: "metrics are not here"}
	if got := r.raw(StatusSocket, get("/metrics")); !strings.HasPrefix(got, "HTTP/1.1 404") || !strings.Contains(got, "metrics are not here") || !strings.Contains(got, "application/json") {
		t.Errorf("%q", got)
	}
	r.alive()
}
