package cli

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tailban/tailban/internal/control"
)

// Five hundred files in the same trouble are no five hundred lines.
func TestManyFilesInTheSameState(t *testing.T) {
	files := []control.FileStatus{{Path: "/l/a", State: "following"}, {Path: "/l/b", State: "waiting"}}
	for i := range 5 {
		files = append(files, control.FileStatus{Path: fmt.Sprintf("/l/%d", i), State: "failing", Err: "too many open files"})
	}
	files = append(files, control.FileStatus{Path: "/l/c", State: "failing", Err: "permission denied"})
	want := []string{
		"/l/b: waiting",
		"/l/0: failing: too many open files",
		"/l/1: failing: too many open files",
		"/l/2: failing: too many open files",
		"/l/c: failing: permission denied",
		"2 more: failing: too many open files",
	}
	if got := fileTexts(files); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
