package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/tailban/tailban/internal/control"
)

func TestHintOf(t *testing.T) {
	c := newRoot(&Process{})
	denied := &fs.PathError{Op: "open", Path: "/var/log/nginx/access.log", Err: syscall.EACCES}
	for _, tt := range []struct {
		code int
		err  error
		want string
	}{
		{exitUsage, errors.New("wrong"), "see tailban --help"},
		{exitError, fmt.Errorf("replay: %w", denied), "try sudo; on Debian members of the group adm can read logs, too"},
		{exitError, &fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, ""},
		{exitError, syscall.EPERM, ""}, // of the kernel: the error says what is needed
	} {
		if got := hintOf(c, tt.code, tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestLatestSteps(t *testing.T) {
	f := control.Seen{Lines: 74, Steps: map[string]int{"counted": 70, "already banned": 4}}
	if got, want := latestSteps(&f), "4 already banned, 70 counted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.Lines = 1_224
	if got, want := latestSteps(&f), "the latest 74: 4 already banned, 70 counted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A table without rows would leave open whether there is anything to enforce.
func TestStatusWithoutActions(t *testing.T) {
	d := newFake()
	d.status.Actions = nil
	if r := run(t.Context(), serve(t, d), "", "status"); !strings.Contains(r.both, "Actions\n  none: nothing is enforced\n") {
		t.Errorf("got\n%s", r.both)
	}
}
