package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// serviceUnits are two disks that can be frozen, for the state and for one of two
// logs, and a watchdog that is in a hurry; %s are the drop-ins of docs/service.md.
const serviceUnits = `
mkdir -p "$1/root/srv/log" "$1/root/disk/state" "$1/root/disk/log" "$units/tailban.service.d"
for disk in state log; do
	truncate -s 16M "$1/$disk.img"
	mkfs.ext4 -q "$1/$disk.img"
	mount -o loop "$1/$disk.img" "$1/root/disk/$disk"
done
: >"$1/root/srv/log/access.log"
: >"$1/root/disk/log/access.log"
cat >"$1/root/etc/tailban/jails.toml" <<'TOML'
[logs.site]
files = "/srv/log/access.log"
[logs.other]
files = "/disk/log/access.log"
[jails.web]
limit = 2
window = "60s"
ban = "1h"
[actions.firewall]
type = "nftables"
TOML
chmod 755 "$1/root/etc/tailban" "$1/root/srv/log" "$1/root/disk"
chmod 644 "$1/root/etc/tailban/jails.toml" "$1/root/srv/log/access.log" "$1/root/disk/log/access.log"
mkdir -m 755 -p "$1/root/drop-ins" "$1/root/var/lib/docker" "$1/root/home"
cat >"$1/root/drop-ins/home.conf" <<'UNIT'
%sUNIT
cat >"$1/root/drop-ins/docker.conf" <<'UNIT'
%sUNIT
cat >"$1/root/drop-ins/programs.conf" <<'UNIT'
%sUNIT
cat >"$units/tailban.service.d/hurry.conf" <<'UNIT'
[Service]
WatchdogSec=3s
RestartSec=100ms
LogRateLimitIntervalSec=0
UNIT
`

// The unit as it is shipped, in a real systemd: TestInsideService says what is
// tested.
func TestService(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	docs := dropIns(t, "service.md", 3)
	inMachine(t, fmt.Sprintf(serviceUnits, docs[0], docs[1], docs[2]), "TestInsideService")
}

// What the service could do if somebody took it over is little.
func TestExposure(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd: ", err)
	}
	for _, unit := range []string{"tailban.service", "tailban-sweep.service"} {
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=20", filepath.Join("..", "..", "systemd", unit)).CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil {
			t.Errorf("%s: %v\n%s", unit, err, out)
		}
		t.Log(lines[len(lines)-1])
	}
}
