package source

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// limited says in a child of a test which limit of inotify it should set.
const limited = "TAILBAN_TEST_INOTIFY"

// In a user namespace of its own the limits of inotify are a test's to set.
func TestInotifyExhausted(t *testing.T) {
	for _, limit := range []string{"max_inotify_instances", "max_inotify_watches"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutInotify$", "-test.v")
			cmd.Env = append(os.Environ(), limited+"="+limit)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
			out, err := cmd.CombinedOutput()
			if err != nil && !strings.Contains(string(out), "=== RUN") {
				t.Skip("no user namespace of one's own here:", err)
			}
			if err != nil || !strings.Contains(string(out), "--- PASS: TestWithoutInotify") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestWithoutInotify is the child of TestInotifyExhausted.
func TestWithoutInotify(t *testing.T) {
	limit := os.Getenv(limited)
	if limit == "" {
		t.Skip("runs by TestInotifyExhausted")
	}
	must(t, os.WriteFile("/proc/sys/user/"+limit, []byte("0"), 0))
	says := map[string]string{
		"max_inotify_instances": "no inotify, polling all files",
		"max_inotify_watches":   "fs.inotify.max_user_watches used up?",
	}[limit]
	path := logPath(t)
	f := create(t, path, "")
	more := t.TempDir()
	for i := range 9 {
		create(t, fmt.Sprintf("%s/%d.log", more, i), "")
	}
	s := begin(t, FilesOptions{Log: "web", Grace: 1}, path, more+"/*")
	s.ready(path)
	s.quietUntil("it is said", func() bool { return s.said.count(says) > 0 })
	for i := range 9 {
		s.ready(fmt.Sprintf("%s/%d.log", more, i))
	}
	if got := s.said.count("level=WARN"); got != 1 {
		t.Errorf("%d warnings, want one of all files:\n%s", got, s.said)
	}
	if st := s.files.Stats(); limit == "max_inotify_watches" && (st.Polled != 10 || s.said.count("files=10") != 1) {
		t.Errorf("%d files are polled, want 10:\n%s", st.Polled, s.said)
	} else if limit == "max_inotify_instances" && st.Watching {
		t.Error("inotify is said to be used")
	}
	write(t, f, "1\n")
	s.wants("1\n")
	rename(t, path, path+".1")
	create(t, path, "2\n")
	s.wants("1\n2\n")
	if s.files.Stats().Files[0].Watching {
		t.Error("said to be watching")
	}
}

// few says in a child of a test that it may open few files.
const few = "TAILBAN_TEST_FEW"

func TestTooManyOpenFiles(t *testing.T) {
	if os.Getenv(few) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTooManyOpenFiles$", "-test.v")
		cmd.Env = append(os.Environ(), few+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	for i := range 60 {
		create(t, filepath.Join(dir, fmt.Sprintf("%02d.log", i)), "").Close()
	}
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 40, Max: 40}))
	s := begin(t, FilesOptions{Log: "web", Poll: 20 * time.Millisecond}, filepath.Join(dir, "*.log"))
	s.quietUntil("it is said", func() bool { return s.said.count("LimitNOFILE=") > 0 })
	failing := 0
	for _, f := range s.files.Stats().Files {
		if f.State == Failing {
			failing++
			if f.Err != "too many open files" {
				t.Errorf("of %s: %q", f.Path, f.Err)
			}
		}
	}
	if failing < 20 {
		t.Errorf("%d files fail, want those beyond 40 descriptors", failing)
	}
	for _, f := range s.files.Stats().Files[:10] {
		if f.State == Following {
			must(t, os.Remove(f.Path))
		}
	}
	s.until("others to be read instead", func([]part) bool { return s.said.count("reading log") > 60-failing })
	for _, level := range []string{"ERROR", "WARN"} {
		if got, want := s.said.count("level="+level), map[string]int{"ERROR": 1}[level]; got != want {
			t.Errorf("%d messages of level %s, want %d:\n%s", got, level, want, s.said)
		}
	}
}

func TestCrowdIsNews(t *testing.T) {
	c := &crowd{}
	start := time.Now()
	for i, step := range []struct {
		after time.Duration
		files int
		want  bool
	}{
		{0, 0, false}, {0, 500, true}, {time.Hour, 500, false}, {time.Hour, 400, false},
		{time.Hour, 501, true}, {time.Hour + time.Second, 502, false}, {2 * time.Hour, 502, true},
		{2 * time.Hour, 0, false}, {2 * time.Hour, 1, true},
	} {
		c.files = step.files
		if got := c.news(start.Add(step.after)); got != step.want {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}
