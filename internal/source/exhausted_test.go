package source

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
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
	s := begin(t, FilesOptions{Log: "web", Grace: 1}, path)
	s.ready(path)
	if got := s.said.count(says); got != 1 {
		t.Errorf("%q said %d times, want once:\n%s", says, got, s.said)
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
