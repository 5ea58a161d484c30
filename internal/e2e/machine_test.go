package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// insideSystemd tells the test binary that it runs in a machine.
const insideSystemd = "TAILBAN_INSIDE_SYSTEMD"

// A machine boots a systemd on a copy of this system, once for each test, which
// is gone afterwards: all that it mounts is in a namespace of its own. Its script
// is three: this one, one that adds units, and machineBoot. $1 is an empty
// folder, $2 the program to run there, $3 the tests of it, $4 tailban, $5 the
// folder of our units.
const machineRoot = `
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
units="$1/root/etc/systemd/system"
rm -rf "$1/root"/var/log/journal/* "$1/root"/run/log/journal "$1/root"/var/lib/tailban "$1/root"/var/lib/private/tailban "$units"/tailban.*
mkdir -p "$1/root/var/log/journal" "$1/root/etc/tailban"
cp "$2" "$1/root/inside"
cp "$4" "$1/root/usr/local/bin/tailban"
cp "$5/tailban.service" "$units"
mkdir -p "$1/root/usr/lib/sysusers.d"
cp "$5/tailban.sysusers" "$1/root/usr/lib/sysusers.d/tailban.conf"
systemd-sysusers --root="$1/root" tailban.conf
cat >"$units/check.target" <<'UNIT'
[Unit]
Requires=basic.target check.service
AllowIsolate=yes
UNIT
`

const machineBoot = `
for test in $3; do
	cat >"$units/check.service" <<UNIT
[Unit]
After=basic.target systemd-journal-flush.service
Requires=basic.target
[Service]
Type=oneshot
Environment=TAILBAN_INSIDE_SYSTEMD=1
ExecStart=/inside -test.v -test.run=^$test\$ -test.timeout=180s
StandardOutput=append:/result
StandardError=append:/result
LogRateLimitIntervalSec=0
ExecStopPost=/bin/systemctl poweroff --force
UNIT
	systemd-nspawn --quiet --register=no --keep-unit --link-journal=no --private-network --console=pipe \
		-D "$1/root" -b systemd.unit=check.target </dev/null >"$1/boot" 2>&1 || true
done
cat "$1/root/result" || cat "$1/boot"
`

// inMachine runs tests of this program in a machine with some units, each in a
// boot of its own.
func inMachine(t *testing.T, units string, tests ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("systemd-nspawn"); err != nil {
		t.Skip("needs systemd-nspawn")
	}
	tailban, err := build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	copyTo(t, program, "/proc/self/exe")
	root := filepath.Join(dir, "machine")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "unshare",
		"--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc",
		"/bin/sh", "-c", machineRoot+units+machineBoot, "machine", root, program, strings.Join(tests, " "),
		tailban, filepath.Join("..", "..", "systemd"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil && !strings.Contains(text, "--- ") {
		t.Skipf("this system can't run another one: %v\n%s", err, text)
	}
	for _, test := range tests {
		switch {
		case strings.Contains(text, "--- SKIP: "+test):
			t.Skip(text)
		case !strings.Contains(text, "--- PASS: "+test):
			t.Errorf("%s: %v\n%s", test, err, text)
		}
	}
	t.Log(text)
}

func copyTo(t *testing.T, to, from string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(fmt.Errorf("copy the program: %w", err))
	}
}
