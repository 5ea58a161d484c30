package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
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
