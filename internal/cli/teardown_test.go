package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/control"
)

// A daemon that runs would have the programs ban again what teardown has them take
// out, which is said.
func TestTeardownOfCommandInUse(t *testing.T) {
	config := filepath.Join(t.TempDir(), "jails.toml")
	teardown := func(dir string) result {
		t.Helper()
		text := fmt.Sprintf("runtime_dir = %q\n", dir) + `
[logs.a]
files = "/a"
[jails.web]
limit = 50
window = "60s"
ban = "1h"
[actions.edge]
type = "command"
ban = ["/bin/true"]
unban = ["/bin/true"]
list = ["/bin/echo", "192.0.2.1"]
`
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := run(context.Background(), dir, "", "teardown", "-c", config)
		if r.code != exitOK || r.out != "1 ban of action edge taken out\n" {
			t.Errorf("exit code %d, said %q", r.code, r.out)
		}
		return r
	}
	if r := teardown(filepath.Join(t.TempDir(), "run")); r.err != "" {
		t.Errorf("without a daemon: %q", r.err)
	}
	d := newFake()
	dir := serve(t, d)
	want := fmt.Sprintf("warning: the daemon runs and will ban again what is taken out of action edge; stop it first (process %d)\n", d.status.PID)
	if r := teardown(dir); r.err != want {
		t.Errorf("with a daemon that uses it: %q, want %q", r.err, want)
	}
	uses := d.status.Actions
	d.status.Actions = []control.ActionStatus{}
	if r := teardown(dir); r.err != "" {
		t.Errorf("with a daemon that doesn't use it: %q", r.err)
	}
	d.status.Actions, d.err = uses, errors.New("lost")
	if r := teardown(dir); !strings.HasPrefix(r.err, "warning: a daemon seems to run, and may ban again what is taken out of action edge; stop it first (") {
		t.Errorf("with a daemon that doesn't answer: %q", r.err)
	}
}
