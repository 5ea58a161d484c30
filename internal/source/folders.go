package source

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/sleep"
)

// Folders tells when names in folders come, go, or get other rights, by one
// inotify instance for all logs. What it tells are hints: names are looked at
// now and then all the same.
//
// The watches of files (wake.go) can't do it: of a folder they would tell of
// each write to each file in it.
type Folders struct {
	f *os.File

	mu     sync.Mutex
	all    map[int32]map[*folder]bool // by the kernel's number
	adding int                        // watches that are being added
}

// folder is somebody's interest in one.
type folder struct {
	wd   int32
	tell func()
}

// readEvery is how far apart events are read at least: however much goes on in a
// folder, what is told is that something does.
const readEvery = 50 * time.Millisecond

const folderEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ATTRIB |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// NewFolders opens inotify. Run must be called, or Close.
func NewFolders() (*Folders, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create inotify instance: %w%s", err, inotifyHint(err))
	}
	return &Folders{f: os.NewFile(uintptr(fd), "inotify"), all: map[int32]map[*folder]bool{}}, nil
}

// Close ends Run, if it runs.
func (f *Folders) Close() error { return f.f.Close() }

// Run tells of events until ctx is done.
func (f *Folders) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = f.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	defer f.f.Close()
	buf := make([]byte, 16<<10) // many events; one takes 272 bytes at most
	for {
		n, err := f.f.Read(buf)
		switch {
		case ctx.Err() != nil || errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read inotify: %w", err)
		}
		f.heard(buf[:n])
		sleep.For(ctx, readEvery)
	}
}

// heard tells of events, in the form of inotify(7).
func (f *Folders) heard(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(b) >= unix.SizeofInotifyEvent {
		wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
		b = b[min(len(b), unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:]))):]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			for _, of := range f.all {
				tell(of)
			}
			continue
		}
		tell(f.all[wd])
		if mask&unix.IN_IGNORED != 0 {
			delete(f.all, wd) // the folder is gone
		}
	}
}

func tell(of map[*folder]bool) {
	for x := range of {
		x.tell()
	}
}

// watch has tell called, which must not block, after each change. It fails if
// there is no such folder, or no room for another watch. It takes as long as the
// file system does, and holds up nobody else.
func (f *Folders) watch(path string, tell func()) (*folder, error) {
	raw, err := f.f.SyscallConn()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.adding++
	f.mu.Unlock()
	wd := 0
	ctl := raw.Control(func(fd uintptr) { wd, err = unix.InotifyAddWatch(int(fd), path, folderEvents) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.adding--
	if err = errors.Join(ctl, err); err != nil {
		return nil, err
	}
	x := &folder{int32(wd), tell}
	if f.all[x.wd] == nil {
		f.all[x.wd] = map[*folder]bool{}
	}
	f.all[x.wd][x] = true
	return x, nil
}

// unwatch ends an interest.
func (f *Folders) unwatch(x *folder) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all[x.wd], x)
	if f.adding > 0 {
		return // one of these may be of the same folder, and have its number: it is removed another time
	}
	for wd, of := range f.all {
		if len(of) > 0 {
			continue
		}
		delete(f.all, wd)
		if raw, err := f.f.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) }) // it may be gone by itself
		}
	}
}
