package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The scripts of the package, with programs in the place of the real ones that write
// down how they are called: what is done in states that a machine is seldom in.
func TestScripts(t *testing.T) {
	t.Parallel()
	const (
		teardown = "timeout --kill-after=5 60 /usr/bin/tailban teardown"
		fails    = "exit 1"
	)
	removed := []string{"deb-systemd-helper purge tailban.service tailban-sweep.timer", "rm -rf ROOT/etc/tailban ROOT/var/lib/tailban ROOT/run/tailban"}
	for _, tt := range []struct {
		name, script string
		systemd      bool
		programs     map[string]string // what they do besides
		want         []string
	}{
		{"upgrade", "prerm upgrade 2.0", true, nil, nil},
		{"failed upgrade", "prerm failed-upgrade 2.0 1.0", true, nil, nil},
		{"deconfigure", "prerm deconfigure in-favour x 1", true, nil, nil},
		{"remove", "prerm remove", true, nil, []string{
			"systemctl show --property=TriggeredBy --value tailban.service",
			"deb-systemd-invoke stop tailban-sweep.timer tailban.service",
			"systemd-detect-virt --quiet --chroot", teardown}},
		{"remove with sockets", "prerm remove", true, map[string]string{"systemctl": "echo tailban-a.socket tailban-b.socket"}, []string{
			"systemctl show --property=TriggeredBy --value tailban.service",
			"deb-systemd-invoke stop tailban-sweep.timer tailban-a.socket tailban-b.socket tailban.service",
			"systemd-detect-virt --quiet --chroot", teardown}},
		{"remove, and nothing works", "prerm remove", true, map[string]string{"systemctl": fails, "deb-systemd-invoke": fails, "timeout": fails}, []string{
			"systemctl show --property=TriggeredBy --value tailban.service",
			"deb-systemd-invoke stop tailban-sweep.timer tailban.service",
			"systemd-detect-virt --quiet --chroot", teardown}},
		{"remove without systemd", "prerm remove", false, nil, []string{"systemd-detect-virt --quiet --chroot", teardown}},
		{"remove in a chroot", "prerm remove", false, map[string]string{"systemd-detect-virt": "exit 0"}, []string{"systemd-detect-virt --quiet --chroot"}},
		{"removed", "postrm remove", true, nil, []string{"systemctl --system daemon-reload"}},
		{"upgraded", "postrm upgrade 2.0", true, nil, nil},
		{"abort of an installation", "postrm abort-install", true, nil, nil},
		{"purge", "postrm purge", false, map[string]string{"getent": `[ "$1" = group ] || echo tailban:x:990:990:tailban:ROOT/var/lib/tailban:/usr/sbin/nologin`},
			append(removed[:2:2], "getent passwd tailban", "userdel tailban", "getent group tailban", "groupdel tailban")},
		{"purge, and nobody is there", "postrm purge", false, map[string]string{"getent": "exit 2"}, append(removed[:2:2], "getent passwd tailban", "getent group tailban")},
		{"purge, and somebody is called so", "postrm purge", false, map[string]string{"getent": "echo tailban:x:1000:1000::/home/tailban:/bin/sh"},
			append(removed[:2:2], "getent passwd tailban")},
		{"purge, and nothing works", "postrm purge", false, map[string]string{"getent": "exit 2", "rm": fails, "deb-systemd-helper": fails},
			append(removed[:2:2], "getent passwd tailban", "getent group tailban")},
		{"installation without systemd", "postinst configure ", false, map[string]string{"deb-systemd-helper": `case "$*" in *was-enabled*) exit 1 ;; esac`}, []string{
			"systemd-sysusers tailban.conf",
			"deb-systemd-helper unmask tailban.service", "deb-systemd-helper --quiet was-enabled tailban.service",
			"deb-systemd-helper update-state tailban.service", "deb-systemd-helper update-state tailban-sweep.timer"}},
		{"upgrade to it", "postinst configure 1.0", true, map[string]string{"deb-systemd-invoke": fails}, []string{
			"systemd-sysusers tailban.conf",
			"deb-systemd-helper unmask tailban.service", "deb-systemd-helper --quiet was-enabled tailban.service",
			"deb-systemd-helper enable tailban.service", "deb-systemd-helper update-state tailban-sweep.timer",
			"systemctl --system daemon-reload", "deb-systemd-invoke restart tailban.service"}},
		{"removal given up", "postinst abort-remove", true, nil, []string{
			"systemd-sysusers tailban.conf",
			"deb-systemd-helper unmask tailban.service", "deb-systemd-helper --quiet was-enabled tailban.service",
			"deb-systemd-helper enable tailban.service", "deb-systemd-helper update-state tailban-sweep.timer",
			"systemctl --system daemon-reload", "deb-systemd-invoke start tailban.service"}},
		{"triggered", "postinst triggered x", true, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inside := func(text string) string { return strings.ReplaceAll(text, "ROOT", dir) }
			for _, program := range []string{
				"systemctl", "systemd-detect-virt", "systemd-sysusers", "deb-systemd-invoke", "deb-systemd-helper",
				"timeout", "rm", "getent", "userdel", "groupdel",
			} {
				does := tt.programs[program]
				if program == "systemd-detect-virt" && does == "" {
					does = "exit 1"
				}
				text := "#!/bin/sh\necho \"" + program + " $*\" >>\"" + dir + "/calls\"\n" + inside(does) + "\n"
				if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if tt.systemd {
				if err := os.MkdirAll(filepath.Join(dir, "run/systemd/system"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			args := strings.Split(tt.script, " ")
			text, err := os.ReadFile(filepath.Join(root, "packaging/deb", args[0]))
			if err != nil {
				t.Fatal(err)
			}
			script := strings.NewReplacer("/run/", dir+"/run/", "/etc/", dir+"/etc/", "/var/", dir+"/var/").Replace(string(text))
			cmd := exec.Command("sh", append([]string{"-c", script, args[0]}, args[1:]...)...)
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			var want string
			for _, w := range tt.want {
				want += inside(w) + "\n"
			}
			if diff := cmp.Diff(want, string(calls)); diff != "" {
				t.Errorf("calls (-want +got)\n%s", diff)
			}
		})
	}
}
