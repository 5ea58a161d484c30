package e2e

import "testing"

// journalUnits are what TestInsideSystemd looks at.
const journalUnits = `
cat >"$1/root/etc/tailban/jails.toml" <<'CONFIG'
admin_group = "adm"
[logs.shop]
journal = ["shop.service"]
[jails.web]
limit  = 2
window = "1h"
ban    = "1h"
[actions.firewall]
type = "nftables"
CONFIG
cat >"$units/shop.service" <<'UNIT'
[Service]
ExecStart=/bin/cat /run/shop.pipe
LogRateLimitIntervalSec=0
UNIT
sed s/^Service=.*/Service=receiver.service/ "$5/tailban.socket" >"$units/tailban.socket"
cat >"$units/receiver.service" <<'UNIT'
[Unit]
StartLimitIntervalSec=0
[Service]
Environment=TAILBAN_INSIDE_SYSTEMD=1
ExecStart=/inside -test.run=^TestInsideReceiver$
StandardOutput=file:/receiver
StandardError=file:/receiver
UNIT
`

// A real systemd, with its journald and journalctl: TestInsideSystemd and
// TestInsideNextBoot say what is tested.
func TestJournal(t *testing.T) {
	inMachine(t, journalUnits, "TestInsideSystemd", "TestInsideNextBoot")
}
