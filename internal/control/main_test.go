package control

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// childEnv tells the test binary to be a part of a test instead: a word, and
// the directory of the sockets.
const childEnv = "TAILBAN_TEST_CONTROL"

const nobody = 65534

func TestMain(m *testing.M) {
	if word, dir, ok := strings.Cut(os.Getenv(childEnv), " "); ok {
		if err := runChild(word, dir); err != nil {
			fmt.Print(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func runChild(word, dir string) error {
	c := NewClient(dir)
	switch word {
	case "listen": // until it is killed
		if err := NewServer(Options{Dir: dir, Daemon: &fake{}}).Listen(); err != nil {
			return err
		}
		fmt.Print("listening\n")
		_, err := os.Stdin.Read(make([]byte, 1))
		return err
	case "status":
		s, err := c.Status(context.Background())
		if err == nil {
			fmt.Print(s.Version)
		}
		return err
	case "ban":
		_, err := c.Ban(context.Background(), BanRequest{Target: netip.MustParsePrefix("192.0.2.1/32")})
		return err
	}
	return fmt.Errorf("no such part: %s", word)
}

// child is this test binary in a part.
func child(word, dir string) *exec.Cmd {
	// The path of the binary may lead through directories closed to others.
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = []string{childEnv + "=" + word + " " + dir}
	return cmd
}

// asNobody is what a child says that has no rights, but these groups.
func asNobody(t *testing.T, word, dir string, groups ...uint32) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start a process as another user")
	}
	cmd := child(word, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: groups}}
	out, _ := cmd.Output()
	return string(out)
}
