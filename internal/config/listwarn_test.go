package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// warningsOf parses a configuration that allows the entries of a file.
func warningsOf(t *testing.T, path string) string {
	t.Helper()
	var lines []string
	for _, w := range accept(t, fmt.Sprintf("allow = \"file:%s\"\n%s", path, enforced)).Warnings() {
		lines = append(lines, w.String())
	}
	return strings.Join(lines, "\n")
}

func TestManyWideRanges(t *testing.T) {
	var b strings.Builder
	for i := range 250 {
		fmt.Fprintf(&b, "%d.0.0.0/8\n", 1+i)
	}
	path := putList(t, b.String())
	lines := strings.Split(warningsOf(t, path), "\n")
	if len(lines) != maxListWarnings+1 {
		t.Fatalf("%d warnings, want %d", len(lines), maxListWarnings+1)
	}
	if got, want := lines[maxListWarnings], path+":6: allow: from here on 245 more ranges are wide"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A file of addresses decides who is never banned: whoever can change it
// besides root is told.
func TestWhoChangesAListFile(t *testing.T) {
	plain := putList(t, "192.0.2.1\n")
	if got := warningsOf(t, plain); got != "" {
		t.Fatalf("a file of one's own: %s", got)
	}

	link := filepath.Join(t.TempDir(), "link.txt")
	if err := os.Symlink(plain, link); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("jails.toml:1: allow: %s is a symbolic link to %s: whoever can change the link decides what is read", link, plain)
	if got := warningsOf(t, link); got != want {
		t.Errorf("a link:\ngot  %s\nwant %s", got, want)
	}

	open := putList(t, "192.0.2.1\n")
	dir := filepath.Dir(open)
	for mode, want := range map[os.FileMode]string{
		0o777:                 fmt.Sprintf("jails.toml:1: allow: anybody can put another file in the place of %s: chmod o-w %s takes that away", open, dir),
		0o777 | os.ModeSticky: "",
	} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if got := warningsOf(t, open); got != want {
			t.Errorf("a folder with mode %v:\ngot  %s\nwant %s", mode, got, want)
		}
	}
}

func TestListFileOfAnotherUser(t *testing.T) {
	path := putList(t, "192.0.2.1\n")
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Skipf("only root may give a file away: %v", err)
	}
	want := fmt.Sprintf("jails.toml:1: allow: %s belongs to user 12345, who decides what is in it: give it to root", path)
	if got := warningsOf(t, path); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
