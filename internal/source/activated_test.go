package source

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test runs in a process of its own, as systemd starts it: which sockets
// there are is known by their numbers.
func TestActivated(t *testing.T) {
	if os.Getenv("LISTEN_FDS") == "" {
		dir := t.TempDir()
		cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=web:shop:web exec "$0" -test.run='^TestActivated$' -test.v`, os.Args[0])
		cmd.Env = append(os.Environ(), "SOCKETS="+dir)
		for _, name := range []string{"a", "b", "c"} {
			cmd.ExtraFiles = append(cmd.ExtraFiles, passed(t, filepath.Join(dir, name)))
		}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestActivated") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := os.Getenv("SOCKETS")
	files, err := Activated()
	if err == nil || !strings.Contains(err.Error(), `two sockets named "web"`) {
		t.Errorf("the third is not missed: %v", err)
	}
	if len(files) != 2 || files["web"] == nil || files["shop"] == nil {
		t.Fatalf("got %v", files)
	}
	for name, path := range map[string]string{"web": "a", "shop": "b"} {
		path = filepath.Join(dir, path)
		s, _ := beginSyslog(t, SyslogOptions{Network: "unix", Address: path, File: files[name], FromUsers: []string{me()}})
		say(t, dialUnix(t, path), "for "+name)
		s.wants("for " + name + "\n")
	}
	if os.Getenv("LISTEN_FDS") != "" {
		t.Error("children would take them for theirs")
	}
	if again, err := Activated(); len(again) != 0 || err != nil {
		t.Errorf("again: %v, %v", again, err)
	}
}
