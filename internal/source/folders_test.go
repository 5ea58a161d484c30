package source

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newFolders runs until the end of the test.
func newFolders(t *testing.T) *Folders {
	t.Helper()
	f, err := NewFolders()
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		if len(f.all) > 0 {
			t.Errorf("still watched: %v", f.all)
		}
	})
	return f
}

// New names are found at once, without a look now and then: of a file that was
// waited for, below a glob, and in a folder that a glob has yet to find.
func TestFoldersTellOfNewNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	waited, globbed, deep := filepath.Join(dir, "waited.log"), filepath.Join(dir, "a", "x.log"), filepath.Join(dir, "b", "y.log")
	s := begin(t, FilesOptions{Log: "web", Poll: time.Hour, Folders: newFolders(t)}, waited, filepath.Join(dir, "*", "*.log"))
	s.quietUntil("the names to be known", func() bool { return len(s.files.Stats().Files) > 0 })
	create(t, waited, "1\n")
	s.wants("1\n")
	create(t, globbed, "2\n")
	s.wants("1\n2\n")
	must(t, os.Mkdir(filepath.Join(dir, "b"), 0o755))
	create(t, deep, "3\n")
	s.wants("1\n2\n3\n")

	must(t, os.RemoveAll(filepath.Join(dir, "b"))) // and once more, as another folder
	must(t, os.Mkdir(filepath.Join(dir, "b"), 0o755))
	create(t, deep, "4\n")
	s.wants("1\n2\n3\n4\n")
}

// A link that leads to another file is followed at once.
func TestFoldersTellOfLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "current.log")
	create(t, filepath.Join(dir, "monday"), "")
	create(t, filepath.Join(dir, "tuesday"), "2\n")
	must(t, os.Symlink("monday", link))
	s := begin(t, FilesOptions{Log: "web", Poll: time.Hour, Folders: newFolders(t)}, link)
	s.ready(link)
	must(t, os.Symlink("tuesday", link+".new"))
	rename(t, link+".new", link)
	s.wants("2\n")
}

// When nothing happens, names and files are looked at less often, but not when
// something is amiss.
func TestCalm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if !local(dir) {
		t.Skip("another run one: the folder for temporary files is on a file system that inotify doesn't tell all of")
	}
	path := filepath.Join(dir, "a.log")
	create(t, path, "")
	s := begin(t, FilesOptions{Log: "web", Poll: 10 * time.Millisecond, Grace: 100 * time.Millisecond, Folders: newFolders(t)}, path, filepath.Join(dir, "*.txt"))
	calm := func() bool {
		r := s.files.current.Load()
		if r == nil {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.calm
	}
	s.quietUntil("calm", calm)
	must(t, os.Remove(path))
	s.quietUntil("no calm", func() bool { return !calm() })
	create(t, path, "1\n")
	s.poll("calm", func() bool { return s.text() == "1\n" && calm() }, func(b *Batch) { s.accept(b) })
}

// However much goes on in a folder, looking at it takes a small share of the
// time.
func TestStirIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, test := range []struct{ took, since, want time.Duration }{
		{0, time.Minute, 0},
		{0, 0, readEvery},
		{10 * time.Millisecond, 0, scanShare * 10 * time.Millisecond},
		{10 * time.Millisecond, 150 * time.Millisecond, 50 * time.Millisecond},
		{time.Second, 0, 5 * time.Second}, // no longer than without
	} {
		r := &follower{o: &FilesOptions{Poll: 5 * time.Second}, scanned: now.Add(-test.since), scanTook: test.took}
		r.stirred = make(chan struct{}, 1)
		if r.heed() == nil {
			t.Error("nobody listens")
		}
		r.stir(now)
		if got := max(0, r.scanBy.Sub(now)); got != test.want {
			t.Errorf("after a look of %v, %v ago: %v, want %v", test.took, test.since, got, test.want)
		}
		if r.heed() != nil {
			t.Error("what is known is listened to")
		}
	}
}

// What is known to happen in a folder isn't forgotten for other things that happen
// before the look.
func TestStirIsNotForgotten(t *testing.T) {
	t.Parallel()
	r := &follower{o: &FilesOptions{Poll: time.Hour}, calm: true, scanned: time.Now(), scanTook: time.Second}
	r.stir(time.Now())
	for range 3 { // a tail ends, and another one
		if d := r.pause(); d > scanShare*time.Second {
			t.Errorf("the next look is after %v", d)
		}
	}
}

// Files beside the folders that a glob leads to are none of them.
func TestFilesBesideFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "a"), 0o755))
	for i := range maxFolders + 10 {
		create(t, filepath.Join(dir, fmt.Sprint(i)), "").Close()
	}
	got := map[string]bool{}
	addFolders(got, filepath.Join(dir, "*", "x.log"))
	if len(got) != 2 {
		t.Errorf("%d folders", len(got))
	}
}

// A link on the way to a folder can be changed without a word.
func TestLinkedFolderIsNoCalm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "1"), 0o755))
	must(t, os.Symlink("1", filepath.Join(dir, "current")))
	if !linked(filepath.Join(dir, "current")) || linked(filepath.Join(dir, "1")) {
		t.Error("the link isn't told from the folder")
	}
}

// While a watch is being added, for however long, others are added, told and ended.
func TestFoldersWhileOneIsAdded(t *testing.T) {
	t.Parallel()
	f, dir := newFolders(t), t.TempDir()
	f.mu.Lock()
	f.adding++ // as while somebody waits for a dead server
	f.mu.Unlock()
	told := make(chan struct{}, 1)
	x, err := f.watch(dir, func() { nudge(told) })
	must(t, err)
	create(t, filepath.Join(dir, "x"), "")
	<-told
	f.unwatch(x)
	y, err := f.watch(dir, func() { nudge(told) })
	must(t, err)
	create(t, filepath.Join(dir, "y"), "")
	<-told
	f.mu.Lock()
	f.adding--
	f.mu.Unlock()
	f.unwatch(y)
}

func TestAddFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"a/logs", "b/logs", "c/other"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	got := map[string]bool{}
	addFolders(got, filepath.Join(dir, "*", "logs", "*.log"))
	var names []string
	for d := range got {
		rel, err := filepath.Rel(dir, d)
		must(t, err)
		names = append(names, rel)
	}
	slices.Sort(names)
	if want := []string{".", "a", "a/logs", "b", "b/logs", "c"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// Two logs in one folder are told, and each as long as it wants.
func TestFoldersOfTwo(t *testing.T) {
	t.Parallel()
	f, dir := newFolders(t), t.TempDir()
	one, two := make(chan struct{}, 1), make(chan struct{}, 1)
	a, err := f.watch(dir, func() { nudge(one) })
	must(t, err)
	b, err := f.watch(dir, func() { nudge(two) })
	must(t, err)
	create(t, filepath.Join(dir, "x"), "")
	<-one
	<-two
	f.unwatch(a)
	f.unwatch(a)
	create(t, filepath.Join(dir, "y"), "")
	<-two
	select {
	case <-one:
		t.Error("who has gone is told")
	default:
	}
	f.unwatch(b)
	if _, err := f.watch(filepath.Join(dir, "x"), func() {}); err == nil {
		t.Error("a file is watched as a folder")
	}
}

// FuzzFolderEvents: whatever the kernel may say, nothing breaks.
func FuzzFolderEvents(f *testing.F) {
	event := func(wd int32, mask, name uint32) []byte {
		b := make([]byte, unix.SizeofInotifyEvent+int(name))
		binary.NativeEndian.PutUint32(b, uint32(wd))
		binary.NativeEndian.PutUint32(b[4:], mask)
		binary.NativeEndian.PutUint32(b[12:], name)
		return b
	}
	f.Add(event(1, unix.IN_CREATE, 16))
	f.Add(append(event(1, unix.IN_IGNORED, 0), event(-1, unix.IN_Q_OVERFLOW, 0)...))
	f.Add(event(1, unix.IN_CREATE, 16)[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		told := 0
		x := &folder{1, func() { told++ }}
		fs := &Folders{all: map[int32]map[*folder]bool{1: {x: true}}}
		fs.heard(b)
		if told > len(b)/unix.SizeofInotifyEvent {
			t.Errorf("told %d times of %d bytes", told, len(b))
		}
	})
}
