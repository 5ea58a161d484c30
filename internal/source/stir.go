package source

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// calmPolls is how many times longer the pauses between looks may be at what
	// inotify tells of.
	calmPolls = 10

	// maxFolders is how many folders of a log are watched; with more, names are
	// looked at as without.
	maxFolders = 256

	// scanShare is how much longer than a look at all names the pause before the
	// next one is at least, however much goes on in their folders.
	scanShare = 20
)

// watchFolders watches the folders of all patterns as they are now. It reports
// whether that is all that can change what patterns lead to.
func (r *follower) watchFolders() bool {
	if r.o.Folders == nil || !r.notify {
		return false
	}
	want := map[string]bool{}
	for _, p := range r.names.patterns {
		addFolders(want, p)
	}
	if len(want) > maxFolders {
		want = nil
	}
	for path, x := range r.folders {
		if !want[path] {
			r.o.Folders.unwatch(x)
			delete(r.folders, path)
		}
	}
	whole := want != nil
	for path := range want {
		// Each time anew: by now another folder may have its name. The kernel
		// keeps one watch of each.
		x, err := r.o.Folders.watch(path, func() { nudge(r.stirred) })
		if old := r.folders[path]; old != nil {
			r.o.Folders.unwatch(old)
			delete(r.folders, path)
		}
		if err != nil || !local(path) || linked(path) {
			whole = false
		}
		if err == nil {
			r.folders[path] = x
		}
	}
	return whole
}

// addFolders adds those in which names decide what a pattern leads to.
func addFolders(to map[string]bool, pattern string) {
	dir := filepath.Dir(pattern)
	if !isGlob(dir) {
		to[dir] = true
		return
	}
	addFolders(to, dir)
	paths, _ := filepath.Glob(dir) // a bad pattern leads nowhere
	for _, p := range paths {
		if len(to) > maxFolders {
			return
		}
		if fi, err := os.Stat(p); err == nil && !fi.IsDir() {
			continue // a file beside them
		}
		to[p] = true
	}
}

// linked reports whether a link leads to a folder, of which nobody is told when it
// leads to another one.
func linked(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	return err != nil || real != path
}

// unwatchFolders ends all watches.
func (r *follower) unwatchFolders() {
	for _, x := range r.folders {
		r.o.Folders.unwatch(x)
	}
	r.folders = nil
}

// local reports whether inotify tells of all that happens in a file system.
// Others can be changed from elsewhere; in an overlay the file that is written to
// may be another one than that which is read.
func local(path string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false
	}
	return localType(int64(st.Type))
}

func localType(magic int64) bool {
	switch magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, zfsMagic:
		return true
	}
	return false
}

const zfsMagic = 0x2fc12fc1 // of OpenZFS; the kernel's headers don't have it

// stir has names looked at soon, but not so often that it costs much.
func (r *follower) stir(now time.Time) {
	r.globbed = time.Time{} // with the globs
	soon := r.scanned.Add(max(readEvery, scanShare*r.scanTook))
	if latest := now.Add(r.o.Poll); soon.After(latest) {
		soon = latest
	}
	r.scanBy = soon
}

// heed is where to hear of folders; nil while it is known that something happens
// there.
func (r *follower) heed() <-chan struct{} {
	if !r.scanBy.IsZero() {
		return nil
	}
	return r.stirred
}
