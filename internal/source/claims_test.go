package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOwnerOf(t *testing.T) {
	logs := []LogFiles{
		{"all", []string{"/log/*.log", "/log/sites/*"}},
		{"shop", []string{"/log/shop.log"}},
		{"later", []string{"/log/*"}},
	}
	for path, want := range map[string]string{
		"/log/a.log":       "all",
		"/log/shop.log":    "shop", // named outright
		"/log/shop.log.1":  "later",
		"/log/a.txt":       "later",
		"/log/a.txt.gz":    "",
		"/log/sites/a.log": "all",
		"/elsewhere":       "",
	} {
		if got := OwnerOf(logs, path); got != want {
			t.Errorf("%s belongs to %q, want %q", path, got, want)
		}
	}
}

// two begins two logs, of which the first goes before the second.
func two(t *testing.T, o FilesOptions, first, second string) (a, b *session) {
	t.Helper()
	o.Claims = NewClaims(nil)
	o.Claims.Assign([]LogFiles{{"first", []string{first}}, {"second", []string{second}}})
	o.Log = "first"
	a = begin(t, o, first)
	o.Log = "second"
	return a, begin(t, o, second)
}

// A file that two logs lead to is read for one of them; the other says so once,
// counts all, and shows them.
func TestFileOfTwoLogs(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		dir := t.TempDir()
		shop, other := filepath.Join(dir, "shop.log"), filepath.Join(dir, "shop-2.log")
		appendTo(t, shop, "one\n")
		appendTo(t, other, "two\n")
		o.FromStart = true
		a, b := two(t, o, filepath.Join(dir, "*.log"), filepath.Join(dir, "shop*"))
		a.until("both", func([]part) bool { return len(a.text()) == len("one\ntwo\n") })
		b.quietUntil("both to be refused", func() bool { return b.state(shop) == Refused && b.state(other) == Refused })
		if n := b.said.count("is read for log first"); n != 1 || b.files.Stats().Refused != 2 {
			t.Errorf("said %d times, counted %d: %s", n, b.files.Stats().Refused, b.said)
		}
		appendTo(t, shop, "three\n")
		a.until("more", func([]part) bool { return strings.HasSuffix(a.text(), "three\n") })
		b.quietUntil("a look", looks(b, 3))
	})
}

// looks is a condition that holds after some time of looking at names.
func looks(s *session, n int) func() bool {
	end := time.Now().Add(time.Duration(n) * s.files.o.Poll)
	return func() bool { return time.Now().After(end) }
}

// A link, or a second name, leads to the same file. Whoever has it open has it;
// the other goes on where that one has stopped.
func TestFileOfTwoLogsBySecondName(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		dir := t.TempDir()
		path, link := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
		appendTo(t, path, "one\n")
		o.FromStart = true
		o.Claims = NewClaims(nil)
		o.Claims.Assign([]LogFiles{{"first", []string{path}}, {"second", []string{link}}})
		o.Log = "first"
		a := begin(t, o, path)
		a.wants("one\n")
		must(t, os.Link(path, link))
		o.Log = "second"
		b := begin(t, o, link)
		b.quietUntil("it to be refused", func() bool { return b.state(link) == Refused })
		a.stop()
		appendTo(t, path, "two\n")
		b.wants("two\n")
	})
}

// A file that is renamed into another log's pattern is read on for the first
// until it is quiet, then for the second, and each line once.
func TestFileMovesToAnotherLog(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		for _, successor := range []string{"", "successor\n"} {
			dir := t.TempDir()
			was, now := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
			appendTo(t, was, "one\n")
			id := lookAt(was).id
			o.FromStart = true
			a, b := two(t, o, was, now)
			a.wants("one\n")
			rename(t, was, now)
			if successor != "" {
				appendTo(t, was, successor)
			}
			a.wants("one\n" + successor)
			b.quietUntil("it to be refused", func() bool { return b.state(now) == Refused })
			appendTo(t, now, "two\n")
			a.wants("one\n" + successor + "two\n")
			a.final(id)
			appendTo(t, now, "three\n")
			b.wants("three\n")
			if p := b.positions[id]; p.Read != int64(len("three\n")) {
				t.Errorf("log %s says that it has read %d bytes up to %d, but it has read one line", p.Log, p.Read, p.Offset)
			}
			a.quietUntil("a look", looks(a, 3))
			a.stop()
			b.stop()
		}
	})
}

// A log that is gone wants no file any more.
func TestFileIsWantedNoLonger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	appendTo(t, path, "one\n")
	synctest.Test(t, func(t *testing.T) {
		id := lookAt(path).id
		o := FilesOptions{Log: "second", NoInotify: true, Claims: NewClaims(nil)}
		if owner, _ := o.Claims.take(id, "first"); owner != "" {
			t.Fatalf("log %s has it", owner)
		}
		s := begin(t, o, path)
		for range 10 {
			time.Sleep(wantedFor) // of the bubble's time
			if !o.Claims.isWanted(id) {
				t.Error("not wanted while a log waits for it")
			}
		}
		s.stop()
		time.Sleep(wantedFor)
		if o.Claims.isWanted(id) {
			t.Error("wanted by nobody")
		}
	})
}

// What is read for another log after a restart is read on where it was.
func TestFileOfAnotherLogAfterRestart(t *testing.T) {
	bothWays(t, func(t *testing.T, o FilesOptions) {
		path := filepath.Join(t.TempDir(), "a.log")
		appendTo(t, path, "one\n")
		o.FromStart = true
		a := begin(t, o, path)
		a.wants("one\n")
		o.Resume = a.stop()
		o.Claims = NewClaims(o.Resume)
		o.Claims.Assign([]LogFiles{{"web", []string{filepath.Dir(path) + "/*"}}, {"other", []string{path}}})
		appendTo(t, path, "two\n")
		before := begin(t, o, filepath.Dir(path)+"/*")
		before.final(lookAt(path).id) // its position is of no use any more
		o.Log = "other"
		b := begin(t, o, path)
		b.wants("two\n")
		if p := b.positions[lookAt(path).id]; p.Read != int64(len("two\n")) {
			t.Errorf("log %s says that it has read %d bytes up to %d, but it has read one line", p.Log, p.Read, p.Offset)
		}
	})
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	write(t, f, text)
	must(t, f.Close())
}
