package source

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fsnotify/fsnotify"
	"github.com/nxadm/tail/watch"
	"golang.org/x/sys/unix"
)

// Wake-ups come from nxadm/tail's inotify tracker, one for the process. Three
// properties of it shape this file.
//
//   - It follows names. Given /proc/self/fd/N it follows the inode we hold.
//   - It ends the process if inotify can't be had when it starts. So we ask the
//     kernel first.
//   - It hands events over one by one and waits for each to be taken. So each
//     watch has a goroutine that only takes them: a file whose lines nobody
//     wants at the moment must not hold up the others.
//
// Events are hints. What they miss (two descriptors of one inode, a file system
// without inotify, an overflow of the kernel's queue) is found by polling.

// probeInotify returns an error with a hint if no inotify instance can be had.
func probeInotify() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create inotify instance: %w%s", err, inotifyHint(err))
	}
	return unix.Close(fd)
}

func inotifyHint(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		return " (is fs.inotify.max_user_instances or the limit of open files used up?)"
	case errors.Is(err, unix.ENOSPC):
		return " (is fs.inotify.max_user_watches used up?)"
	case errors.Is(err, unix.EACCES):
		return " (the file was opened with rights that are gone since)"
	}
	return ""
}

// fdWatch is the watch on one open descriptor.
type fdWatch struct {
	path string
	done chan struct{}
}

// watchFD begins to watch the inode behind fd. After each change wake gets a
// token unless it holds one; when the change can be a new name or the loss of
// one, moved is called, which must not block. The descriptor must stay open
// until close has returned: the tracker knows watches by the number in their
// name.
func watchFD(fd uintptr, wake chan<- struct{}, moved func()) (*fdWatch, error) {
	path := "/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10)
	if err := watch.Watch(path); err != nil {
		// Nothing to remove: a failed Watch has not been counted, and
		// removing it would make the next one for this number deaf.
		return nil, fmt.Errorf("watch: %w%s", err, inotifyHint(err))
	}
	w := &fdWatch{path: path, done: make(chan struct{})}
	events := watch.Events(path)
	go func() {
		defer close(w.done)
		for ev := range events {
			nudge(wake)
			if ev.Op&(fsnotify.Rename|fsnotify.Remove|fsnotify.Chmod) != 0 {
				moved()
			}
		}
	}()
	return w, nil
}

// close ends the watch and waits for its goroutine. An error of the removal
// means that the kernel has dropped the watch already.
func (w *fdWatch) close() {
	_ = watch.RemoveWatch(w.path)
	<-w.done
}

func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
