package source

import (
	"os"
	"testing"
	"time"
)

// With ticks an hour apart only inotify can bring the lines, also when the
// number of a descriptor is used again for the next file.
func TestInotifyWakesReading(t *testing.T) {
	path := logPath(t)
	f := create(t, path, "")
	s := begin(t, FilesOptions{Log: "web", Poll: time.Hour, Grace: 10 * time.Millisecond}, path)
	s.ready(path)
	want := ""
	for range 5 {
		for _, line := range []string{"1\n", "2\n"} {
			write(t, f, line)
			want += line
			s.wants2(want)
		}
		old := idOf(t, f)
		rename(t, path, path+".1")
		f = create(t, path, "")
		s.final(old)
		s.ready(path)
	}
	stats := s.files.Stats()
	if !stats.Watching {
		t.Errorf("not watching: %+v", stats)
	}
	for _, file := range stats.Files { // a finished one may still be there
		if file.State == Following && !file.Watching {
			t.Errorf("not watching: %+v", file)
		}
	}
}

// Of two watches on one inode the kernel feeds one, and ends both with either.
// A file must notice that it hears nothing, and lose no line until then.
func TestDeafWatchIsGivenUp(t *testing.T) {
	path := logPath(t)
	f := create(t, path, "")
	o := FilesOptions{Log: "web", Poll: 50 * time.Millisecond}
	one := begin(t, o, path)
	one.ready(path)
	two := begin(t, o, path)
	two.ready(path)
	want := ""
	for range 2 * deafAfter {
		write(t, f, "line\n")
		want += "line\n"
		one.wants(want)
		two.wants(want)
	}
	if one.files.Stats().Files[0].Watching {
		t.Error("the first is still said to be watching")
	}
	if got := one.said.count("polling it"); got != 1 {
		t.Errorf("said %d times, want once:\n%s", got, one.said)
	}
}

func TestFailedWatchLeavesNothingBehind(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may watch every file")
	}
	path := logPath(t)
	create(t, path, "")
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	must(t, os.Chmod(path, 0))
	wake := make(chan struct{}, 1)
	if w, err := watchFD(f.Fd(), wake, func() {}); err == nil {
		w.close()
		t.Fatal("a file without read permission could be watched")
	}
	must(t, os.Chmod(path, 0o644))
	w, err := watchFD(f.Fd(), wake, func() {})
	must(t, err)
	defer w.close()
	must(t, os.Chtimes(path, time.Now(), time.Now()))
	select {
	case <-wake:
	case <-time.After(patience):
		t.Fatal("the watch is deaf after a failed one")
	}
}

// A consumer that takes nothing must not hold up other files.
func TestBlockedFileHoldsUpNobody(t *testing.T) {
	blocked, path := logPath(t), logPath(t)
	full := create(t, blocked, "")
	f := create(t, path, "")
	o := FilesOptions{Log: "web", Poll: time.Hour}
	stuck := begin(t, o, blocked)
	stuck.ready(blocked)
	s := begin(t, o, path)
	s.ready(path)
	want := ""
	for range 100 {
		write(t, full, "nobody takes this\n")
		write(t, f, "line\n")
		want += "line\n"
		s.wants(want)
	}
}

func TestPollingGetsLazyAndQuickAgain(t *testing.T) {
	for _, tt := range []struct{ since, limit, want time.Duration }{
		{0, time.Second, pollFast},
		{80 * time.Millisecond, time.Second, 10 * time.Millisecond},
		{4 * time.Second, time.Second, 500 * time.Millisecond},
		{time.Hour, time.Second, time.Second},
		{time.Hour, time.Millisecond, time.Millisecond},
	} {
		if got := backoff(tt.since, tt.limit); got != tt.want {
			t.Errorf("backoff(%v, %v) = %v, want %v", tt.since, tt.limit, got, tt.want)
		}
	}
}
