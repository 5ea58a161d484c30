package state

import (
	"os"
	"syscall"
)

// giveToOwner gives a file that root has made to the owner of its folder, so that a
// daemon that somebody has run by hand leaves nothing that the service's user can't
// read. That it fails is no reason not to write.
func giveToOwner(f *os.File, dir string) {
	if os.Geteuid() != 0 {
		return
	}
	folder, err := os.Stat(dir)
	if err != nil {
		return
	}
	file, err := f.Stat()
	if err != nil {
		return
	}
	to, ok := folder.Sys().(*syscall.Stat_t)
	of, isStat := file.Sys().(*syscall.Stat_t)
	if ok && isStat && to.Uid != 0 && of.Uid == 0 && of.Nlink == 1 {
		_ = f.Chown(int(to.Uid), int(to.Gid))
	}
}
