package state

import (
	"os"
	"syscall"
)

// giveToOwner gives a file that root has just made to the owner of its folder, so
// that a daemon that somebody has run by hand leaves nothing that the service's user
// can't read. It is never for a file that was there: whoever owns the folder could
// have put any file of root's there, and how many names it has changes at will. That
// it fails is no reason not to write.
func giveToOwner(f *os.File, dir string) {
	if os.Geteuid() != 0 {
		return
	}
	folder, err := os.Stat(dir)
	if err != nil {
		return
	}
	if to, ok := folder.Sys().(*syscall.Stat_t); ok && to.Uid != 0 {
		_ = f.Chown(int(to.Uid), int(to.Gid))
	}
}
