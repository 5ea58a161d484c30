package cli

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tailban/tailban/internal/control"
)

// What names prove, in words.
func TestNamedText(t *testing.T) {
	for _, tt := range []struct {
		named control.Named
		want  string
	}{
		{control.Named{Result: control.NamesProve, Names: []string{"a.googlebot.com", "b.google.com"}, Until: at(3 * hour)}, "proved by a.googlebot.com, b.google.com, for another 3h"},
		{control.Named{Result: control.NamesDisprove, Reason: "it has no name", Until: at(59 * minute)}, "disproved: it has no name, for another 59m"},
		{control.Named{Result: control.NamesFail, Reason: "no answer in time", Due: at(7), Jails: []string{"web"}}, "not known: no answer in time; what web decided waits for it, for another 7s at most"},
		{control.Named{Result: control.NamesAsked, Reason: "its names are being looked up"}, "its names are being looked up"},
	} {
		if got := namedText(&control.Explanation{Now: at(0), Named: &tt.named}); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

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
