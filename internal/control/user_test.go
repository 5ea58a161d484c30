package control

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Another user gets as far as the groups of the sockets let them, and is told
// what is missing.
func TestOtherUsers(t *testing.T) {
	t.Parallel()
	const statusGID, controlGID = 61001, 61002 // of nobody here: the sockets are given to them below
	var caller Caller
	r := serve(t, &fake{ban: func(_ context.Context, c Caller, _ BanRequest) (*BanResult, error) {
		caller = c
		return &BanResult{}, nil
	}})
	for _, test := range []struct {
		word   string
		groups []uint32
		want   []string
	}{
		{"status", nil, []string{"not allowed to connect to " + filepath.Join(r.dir, StatusSocket), "root may", "group", "61001"}},
		{"status", []uint32{statusGID}, []string{"fake"}},
		{"ban", []uint32{statusGID}, []string{"not allowed to connect to " + filepath.Join(r.dir, ControlSocket), "only root may"}},
	} {
		if os.Geteuid() == 0 {
			check(t, os.Chown(filepath.Join(r.dir, StatusSocket), -1, statusGID))
		}
		got := asNobody(t, test.word, r.dir, test.groups...)
		for _, part := range test.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s with groups %v says %q, without %q", test.word, test.groups, got, part)
			}
		}
	}
	check(t, os.Chown(filepath.Join(r.dir, ControlSocket), -1, controlGID))
	check(t, os.Chmod(filepath.Join(r.dir, ControlSocket), 0o660))
	if got := asNobody(t, "ban", r.dir); !strings.Contains(got, "61002") {
		t.Errorf("the group is not named: %s", got)
	}
	if got := asNobody(t, "ban", r.dir, controlGID); got != "" || caller.UID != nobody || caller.GID != nobody || caller.PID == 0 {
		t.Errorf("a member of the control group gets %q, as %+v", got, caller)
	}
	// With the control socket alone one can look, too.
	if got := asNobody(t, "status", r.dir, controlGID); got != "fake" {
		t.Errorf("a member of the control group gets %q", got)
	}
	check(t, os.Chmod(r.dir, 0o700))
	if got := asNobody(t, "status", r.dir, controlGID); !strings.Contains(got, "the directory is closed") {
		t.Errorf("the closed directory is not told: %q", got)
	}
}
