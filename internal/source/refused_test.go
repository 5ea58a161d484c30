package source

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const stranger = 4242

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of others")
	}
}

func asUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("root may look everywhere")
	}
}

// Whoever can write to a log, or put another file in its place, can have
// anybody banned.
func TestWhoCanWriteToALog(t *testing.T) {
	asRoot(t)
	tests := []struct {
		name    string
		make    func(t *testing.T, dir, path string)
		refused string
	}{
		{name: "ordinary", make: func(t *testing.T, dir, path string) {}},
		{name: "of a user, in that user's folder", make: func(t *testing.T, dir, path string) {
			must(t, os.Chown(dir, stranger, stranger))
			must(t, os.Chown(path, stranger, stranger))
		}},
		{name: "writable for a group", make: func(t *testing.T, dir, path string) { must(t, os.Chmod(path, 0o664)) }},
		{name: "writable for everybody", refused: "any user can write to access.log", make: func(t *testing.T, dir, path string) { must(t, os.Chmod(path, 0o666)) }},
		{name: "folder writable for everybody", refused: "any user can replace access.log", make: func(t *testing.T, dir, path string) { must(t, os.Chmod(dir, 0o777)) }},
		{name: "a stranger's file in a common folder", refused: "any user could have made access.log", make: func(t *testing.T, dir, path string) {
			must(t, os.Chmod(dir, 0o777|os.ModeSticky))
			must(t, os.Chown(path, stranger, stranger))
		}},
		{name: "root's file in a common folder", make: func(t *testing.T, dir, path string) { must(t, os.Chmod(dir, 0o777|os.ModeSticky)) }},
		{name: "root's link to a stranger's file", make: func(t *testing.T, dir, path string) {
			must(t, os.Chown(path, stranger, stranger))
			rename(t, path, path+".target")
			must(t, os.Symlink("access.log.target", path))
		}},
		{name: "a stranger's link to root's file", refused: "a symbolic link of user 4242 leads to access.log.target", make: func(t *testing.T, dir, path string) {
			rename(t, path, path+".target")
			must(t, os.Symlink(path+".target", path))
			must(t, os.Lchown(path, stranger, stranger))
		}},
		{name: "a stranger's link to that stranger's file", make: func(t *testing.T, dir, path string) {
			must(t, os.Chown(path, stranger, stranger))
			rename(t, path, path+".target")
			must(t, os.Symlink("./x/../access.log.target", path))
			must(t, os.Mkdir(filepath.Join(dir, "x"), 0o755))
			must(t, os.Lchown(path, stranger, stranger))
		}},
		{name: "a stranger's link to a folder on the way", refused: "a symbolic link of user 4242", make: func(t *testing.T, dir, path string) {
			rename(t, dir, dir+".target")
			must(t, os.Symlink(dir+".target", dir))
			must(t, os.Lchown(dir, stranger, stranger))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "logs")
			must(t, os.Mkdir(dir, 0o755))
			path := filepath.Join(dir, "access.log")
			create(t, path, "")
			must(t, os.Chmod(path, 0o644))
			tt.make(t, dir, path)
			f, err := openVetted(path)
			if f != nil {
				f.Close()
			}
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("got %v, want %q", err, tt.refused)
			}
			o := FilesOptions{Log: "web", AllowInsecure: true}
			s := begin(t, o, path)
			s.ready(path)
		})
	}
}

func TestOpenVettedAsTheKernel(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	create(t, path, "x")
	must(t, os.Symlink("b", filepath.Join(dir, "a")))
	must(t, os.Symlink("a", filepath.Join(dir, "b")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	for _, p := range []string{path, dir + "/./access.log", dir + "/a", dir + "/dangling", dir, path + "/x", dir + "/none", "/", fmt.Sprintf("/proc/%d/root%s", os.Getpid(), path), "/proc/self/root" + path} {
		want, err := os.Open(p)
		if fi, e := os.Stat(p); e == nil && fi.IsDir() {
			err = syscall.EISDIR
		}
		got, gotErr := openVetted(p)
		if fi, e := os.Stat(p); e == nil && fi.IsDir() && got != nil {
			_, gotErr = got.Read(make([]byte, 1)) // a folder can be opened, not read
		}
		if (err == nil) != (gotErr == nil) {
			t.Errorf("%s: %v, the kernel says %v", p, gotErr, err)
		} else if err == nil && idOf(t, got) != idOf(t, want) {
			t.Errorf("%s: another file was opened", p)
		}
		for _, f := range []*os.File{got, want} {
			if f != nil {
				f.Close()
			}
		}
	}
	if f, err := openVetted(dir + "/pipe"); err == nil { // must not block
		f.Close()
	}
}

func TestRefusedUntilItIsPutRight(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		f := create(t, path, "by anybody\n")
		must(t, os.Chmod(path, 0o666))
		s := begin(t, o, path)
		s.quietUntil("it is refused", func() bool { return s.state(path) == Refused })
		write(t, f, "by anybody\n")
		if st := s.files.Stats(); st.Refused != 1 || !strings.Contains(st.Files[0].Err, "any user can write") {
			t.Errorf("got %+v", st)
		}
		must(t, os.Chmod(path, 0o640))
		s.ready(path)
		write(t, f, "safe\n")
		s.wants("safe\n")
		if got := s.said.count("log is not read"); got != 1 {
			t.Errorf("said %d times:\n%s", got, s.said)
		}
	})
}

func TestMaxFiles(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		dir := t.TempDir()
		for i := range 5 {
			create(t, filepath.Join(dir, fmt.Sprintf("%d.log", i)), "")
		}
		o.MaxFiles = 3
		s := begin(t, o, filepath.Join(dir, "*.log"))
		states := func() map[State]int {
			n := make(map[State]int)
			for _, f := range s.files.Stats().Files {
				n[f.State]++
			}
			return n
		}
		s.quietUntil("three are followed", func() bool { n := states(); return n[Following] == 3 && n[Refused] == 2 })
		if got := s.said.count("level=ERROR"); got != 1 || s.said.count("files=2") != 1 {
			t.Errorf("%d errors, want one of both files:\n%s", got, s.said)
		}
		must(t, os.Remove(filepath.Join(dir, "0.log")))
		if got := s.files.Stats().Refused; got != 2 {
			t.Errorf("%d refused, want 2", got)
		}
	})
}

func TestNoText(t *testing.T) {
	utf16 := "G\x00E\x00T\x00 \x00/\x00 \x00H\x00T\x00T\x00P\x00\r\x00\n\x00"
	for content, says := range map[string]string{
		"\x1f\x8b\x08\x00\nxx\n":       "gzip",
		"\xff\xfe" + utf16:             "UTF-16",
		utf16:                          "UTF-16",
		"SQLite format 3\x00\n":        "SQLite",
		"LPKSHHRH\x00\x00\n\x00\n":     "journal",
		"\x28\xb5\x2f\xfd\x00\nx\ny\n": "zstd",
	} {
		for _, fromStart := range []bool{true, false} {
			bothWays(t, func(t *testing.T, o FilesOptions) {
				path := logPath(t)
				f := create(t, path, content)
				o.FromStart = fromStart
				s := begin(t, o, path)
				s.quietUntil("it is refused", func() bool { return s.state(path) == Refused })
				write(t, f, content)
				s.quietUntil("all is skipped", func() bool { return s.files.Stats().Files[0].Behind == 0 })
				if st := s.files.Stats(); !strings.Contains(st.Files[0].Err, says) || s.said.count("holds no lines") != 1 {
					t.Errorf("got %+v, want %q once:\n%s", st.Files[0], says, s.said)
				}
				must(t, f.Truncate(0))
				s.quietUntil("it is empty", func() bool { return s.files.Stats().Truncated == 1 })
				write(t, f, "a line\n")
				s.wants("a line\n")
				if s.state(path) != Following {
					t.Error("still refused")
				}
			})
		}
	}
}

func TestLooksUnlikeALog(t *testing.T) {
	path := logPath(t)
	f := create(t, path, "")
	s := begin(t, FilesOptions{Log: "web"}, path)
	s.ready(path)
	write(t, f, "x"+strings.Repeat("\x00\x00y", 1<<20))
	s.quietUntil("it is said", func() bool { return s.said.count("look like a log") == 1 })
}

func TestStartAt(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := logPath(t)
		create(t, path, "one\ntwo\nthree\n")
		o.StartAt = func(f io.ReaderAt, size int64) int64 {
			all := make([]byte, size)
			if n, err := f.ReadAt(all, 0); err != nil && err != io.EOF || int64(n) != size {
				t.Errorf("%d bytes of %d, %v", n, size, err)
			}
			return size - 7 // inside of "two"
		}
		s := begin(t, o, path)
		s.wants("three\n")
		s.quietUntil("the path is marked", func() bool { return len(s.positions) == 2 })
		o.Resume = s.stop()
		o.StartAt = func(io.ReaderAt, int64) int64 { t.Error("asked again"); return 0 }
		create(t, filepath.Join(filepath.Dir(path), "x"), "")
		s = begin(t, o, path)
		s.ready(path)
	})
}
