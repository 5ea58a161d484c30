//go:build linux

package cli

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/config"
)

// Root removes no firewall because the daemon's user has named it.
func TestTeardownOfTablesThatTheDaemonsUserNames(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("needs nft: ", err)
	}
	s := newLastSite(t)
	s.keep(config.UsedPlace{Action: config.Action{Name: "x", Type: config.TypeNftables, Table: "filter"}})
	var mine, theirs result
	var left []byte
	done := make(chan error)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends, with its network namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- exec.Command(nft, "add table inet filter; add chain inet filter input").Run()
		done <- os.Chown(s.state, 65534, 65534)
		theirs = s.teardown()
		left, _ = exec.Command(nft, "list", "tables").Output()
		done <- os.Chown(s.state, 0, 0)
		mine = s.teardown()
	}()
	for err := range done {
		if err != nil {
			t.Error(err)
		}
	}
	if theirs.code != exitOK || !strings.Contains(string(left), "inet filter") || !strings.Contains(theirs.err, "table inet filter stays, as somebody else than root could have named it") {
		t.Errorf("theirs: exit code %d, said %q, left are %q", theirs.code, theirs.both, left)
	}
	if mine.code != exitOK || !strings.Contains(mine.out, "table inet filter removed") {
		t.Errorf("root's own: exit code %d, said %q", mine.code, mine.both)
	}
	s.want(0)
}
