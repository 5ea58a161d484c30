package access

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whoever can change a program, or put another in its place, is named, with what
// takes that away.
func TestChangeable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	dir := openDir(t)
	bin, link := filepath.Join(dir, "bin"), filepath.Join(dir, "link")
	program := filepath.Join(bin, "ban")
	must(t, errors.Join(os.Mkdir(bin, 0o755), os.WriteFile(program, nil, 0o755), os.Symlink("bin/ban", link)))
	const us, other = 65001, 65003
	for _, tt := range []struct {
		name            string
		dir, file       fs.FileMode
		dirUID, fileUID int
		path            string
		want            string
	}{
		{"root's", 0o755, 0o755, 0, 0, program, ""},
		{"ours", 0o755, 0o755, us, us, program, ""},
		{"ours, by a link", 0o755, 0o755, us, us, link, ""},
		{"everybody's", 0o755, 0o757, 0, 0, program, program + " may be changed by every user (chmod o-w " + program + ")"},
		{"a group's", 0o755, 0o775, 0, 0, program, program + " may be changed by group 65002 (chmod g-w " + program + ")"},
		{"a stranger's", 0o755, 0o755, 0, other, program, program + " may be changed by user 65003 (chown root " + program + ")"},
		{"in a stranger's folder", 0o755, 0o755, other, 0, link,
			"the folder " + bin + " may be changed by user 65003, who could put another file in the place of " + link + " (chown root " + bin + ")"},
		{"in everybody's folder", 0o777, 0o755, 0, 0, program,
			"the folder " + bin + " may be changed by every user, who could put another file in the place of " + program + " (chmod o-w " + bin + ")"},
		{"in a group's folder", 0o775, 0o755, 0, 0, program,
			"the folder " + bin + " may be changed by group 65002, who could put another file in the place of " + program + " (chmod g-w " + bin + ")"},
		{"in a folder like /tmp", 0o777 | fs.ModeSticky, 0o755, 0, us, program, ""},
		{"a stranger's in a folder like /tmp", 0o777 | fs.ModeSticky, 0o755, 0, other, program,
			"the folder " + bin + " may be changed by user 65003, who could put another file in the place of " + program + " (chown root " + program + ")"},
		{"in a stranger's folder like /tmp", 0o777 | fs.ModeSticky, 0o755, other, 0, program,
			"the folder " + bin + " may be changed by every user, who could put another file in the place of " + program + " (chmod o-w " + bin + ")"},
	} {
		must(t, errors.Join(os.Chown(bin, tt.dirUID, 65002), os.Chown(program, tt.fileUID, 65002), os.Chmod(bin, tt.dir), os.Chmod(program, tt.file)))
		got := ""
		if err := Changeable(tt.path, us); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
	if err := Changeable(filepath.Join(dir, "missing"), us); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that isn't there: %v", err)
	}
}

// The answer is the kernel's, for programs and scripts.
func TestExecuteAsTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may become others")
	}
	dir := openDir(t)
	binary, err := os.ReadFile("/bin/true")
	must(t, err)
	for name, text := range map[string]string{"binary": string(binary), "script": "#!/bin/sh\nexit 0\n"} {
		file := filepath.Join(dir, name)
		must(t, errors.Join(os.WriteFile(file, []byte(text), 0o700), os.Chown(file, 0, 65002)))
		for _, mode := range []fs.FileMode{0o755, 0o711, 0o750, 0o710, 0o744, 0o701, 0o705} {
			must(t, os.Chmod(file, mode))
			for _, u := range []User{{UID: 65001, Groups: []uint32{65001}}, {UID: 65001, Groups: []uint32{65001, 65002}}} {
				cmd := exec.Command(file)
				cmd.Dir = "/"
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.UID, Gid: u.Groups[0], Groups: u.Groups}}
				ran, err := cmd.Run(), u.Execute(file)
				if (ran == nil) != (err == nil) {
					t.Errorf("%s, %v, groups %v: %v, but run it ends with %v", name, mode, u.Groups, err, ran)
				}
				if err != nil && !strings.Contains(err.Error(), "may not run the file") {
					t.Errorf("%s, %v: %v", name, mode, err)
				}
			}
		}
	}
}
