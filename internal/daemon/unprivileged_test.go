package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Without CAP_NET_ADMIN nothing can be enforced. That is said once, with what
// to do about it, and decisions go on being made and stored.
func TestWithoutNetAdmin(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start a process as another user")
	}
	t.Parallel()
	l := newKernelLab(t)
	check(t, filepath.WalkDir(l.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, 65534, 65534)
	}))
	c := l.child(l.config(firewalled), true)
	c.waitSaid("reading log")
	const failing = "bans are not enforced, trying again until they are"
	c.waitSaid(failing, "action", "firewall")

	l.requests("192.0.2.1", 1)
	c.waitSaid("banned", "client", "192.0.2.1")
	l.requests("192.0.2.2", 1)
	c.waitSaid("banned", "client", "192.0.2.2")
	c.stop()

	c.journal.want(t, 1, failing)
	hint, _ := c.journal.said(failing)[0]["err"].(string)
	for _, part := range []string{"operation not permitted", "CAP_NET_ADMIN", "root", "systemd"} {
		if !strings.Contains(hint, part) {
			t.Errorf("the error does not say %q: %s", part, hint)
		}
	}
	if bans := l.stored().Bans; len(bans) != 2 {
		t.Errorf("stored are bans %+v, want two", bans)
	}
}
