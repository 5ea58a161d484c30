package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// freeze puts a disk in the place of a folder, and has it hang: whoever writes there
// waits until it is thawed, at the test's end at the latest.
func freeze(t *testing.T, dir string) (thaw func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a disk, and an ordinary user runs this")
	}
	image := filepath.Join(t.TempDir(), "image")
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
	}
	run("truncate", "-s", "8M", image)
	run("mkfs.ext4", "-q", image)
	run("mount", "-o", "loop", image, dir)
	t.Cleanup(func() { run("umount", "-l", dir) })
	// Our end is seen by its input's, however we end.
	guard := exec.Command("sh", "-c", `read x; fsfreeze -u "$0"`, dir)
	in, err := guard.StdinPipe()
	check(t, err)
	check(t, guard.Start())
	thaw = sync.OnceFunc(func() {
		in.Close()
		if err := guard.Wait(); err != nil {
			t.Errorf("thaw %s: %v", dir, err)
		}
	})
	t.Cleanup(thaw)
	run("fsfreeze", "-f", dir)
	return thaw
}
