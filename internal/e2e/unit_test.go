package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// unitUnits are a configuration for each variant of iptables, beside an action that
// runs programs, with somebody who is told; %s are that, and the drop-ins that our
// documentation has for them, in its order.
const unitUnits = `
mkdir -p "$1/root/srv/log" "$1/root/drop-ins"
: >"$1/root/srv/log/access.log"
rm -f "$1/root/run/xtables.lock"
cat >"$1/root/etc/tailban/jails.toml" <<'TOML'
[logs.site]
files = "/srv/log/access.log"
[jails.web]
limit = 2
window = "60s"
ban = "1h"
%s
[notify.chat]
url_file = "chat-url"
interval = "1s"
[actions.firewall]
type = "iptables"
TOML
chmod 755 "$1/root/etc/tailban" "$1/root/srv/log"
chmod 644 "$1/root/etc/tailban/jails.toml" "$1/root/srv/log/access.log"
cat >"$1/root/drop-ins/nft.conf" <<'UNIT'
%sUNIT
cat >"$1/root/drop-ins/legacy.conf" <<'UNIT'
%sUNIT
mkdir -p "$1/root/etc/systemd/system/tailban.service.d"
cat >"$1/root/etc/systemd/system/tailban.service.d/notify.conf" <<'UNIT'
%sUNIT
`

// The daemon runs programs under our unit, and does its work by iptables with the
// drop-ins that the documentation has for it; it says what is missing without:
// TestInsideUnit.
func TestUnitForIptables(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds") // and the daemon is another process, without the race detector
	}
	for _, program := range []string{"iptables-nft", "iptables-legacy", "ipset", "systemd-analyze"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs iptables, ipset and systemd: ", err)
		}
	}
	iptables, told := dropIns(t, "configuration.md", 2), dropIns(t, "notify.md", 1)
	inMachine(t, fmt.Sprintf(unitUnits, blackhole, iptables[0], iptables[1], told[0]), "TestInsideUnit")
}

// dropIns are those that a page of the documentation has.
func dropIns(t *testing.T, page string, n int) (texts []string) {
	t.Helper()
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```ini\n(.*?)^```$").FindAllSubmatch(docs, -1) {
		texts = append(texts, string(m[1]))
	}
	if len(texts) != n {
		t.Fatalf("docs/%s has %d drop-ins", page, len(texts))
	}
	return texts
}

// TestInsideUnit runs in the machine of TestUnitForIptables.
func TestInsideUnit(t *testing.T) {
	if os.Getenv(insideSystemd) == "" {
		t.Skip("runs inside of TestUnitForIptables")
	}
	l := &lab{t: t}
	i := &inside{T: t, wait: l.wait}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(i.run("journalctl", "-q", "-u", "tailban.service", "-o", "cat"))
		}
	})
	said := func() string { return i.run("journalctl", "-q", "-u", "tailban.service", "-o", "cat") }
	config := func(variant string) {
		t.Helper()
		const path = "/etc/tailban/jails.toml"
		text, err := os.ReadFile(path)
		if err == nil {
			before, _, _ := strings.Cut(string(text), "variant")
			err = os.WriteFile(path, fmt.Appendf(nil, "%svariant = %q\n", before, variant), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dropIn := func(name string) {
		t.Helper()
		const dir = "/etc/systemd/system/tailban.service.d"
		i.run("mkdir", "-p", dir)
		i.run("cp", "/drop-ins/"+name+".conf", dir+"/override.conf")
		if out := i.run("systemd-analyze", "verify", "tailban.service"); strings.Contains(out, "tailban") {
			t.Errorf("systemd says of the drop-in %s: %s", name, out)
		}
		i.run("systemctl", "daemon-reload")
	}

	flood := func(addr string) {
		t.Helper()
		f, err := os.OpenFile("/srv/log/access.log", os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		line := fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", addr, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
		if _, err := f.WriteString(strings.Repeat(line, 3)); err != nil {
			t.Fatal(err)
		}
	}

	told := make(chan string, 100)
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- string(body)
	}))
	t.Cleanup(chat.Close)
	for _, name := range []string{"ops-key", "ntfy-token"} {
		if err := os.WriteFile("/etc/tailban/"+name, []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("/etc/tailban/chat-url", []byte(chat.URL+"/services/secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	config("nft")
	i.run("systemctl", "start", "tailban.service")
	if out := i.run("/usr/local/bin/tailban", "notify"); !strings.Contains(out, "notify chat: taken by 127.0.0.1:") || !strings.Contains(<-told, `"test":1`) {
		t.Errorf("the test of messages: %s", out)
	}
	flood("203.0.113.9")
	l.wait("the shipped unit to run programs", func() bool {
		return strings.Contains(i.run("ip", "route", "show", "proto", "116"), "blackhole 203.0.113.9 ")
	})
	l.wait("the ban to be told", func() bool {
		select {
		case body := <-told:
			return strings.Contains(body, `"target":"203.0.113.9/32"`)
		default:
			return false
		}
	})
	l.wait("the shipped unit to be told what is missing", func() bool { return strings.Contains(said(), "CAP_NET_RAW") })
	i.run("systemctl", "stop", "tailban.service")

	for n, variant := range []string{"nft", "legacy"} {
		config(variant)
		dropIn(variant)
		i.run("systemctl", "start", "tailban.service")
		addr := fmt.Sprintf("203.0.113.%d", n+1)
		flood(addr)
		l.wait("the ban by "+variant, func() bool { return strings.Contains(i.run("ipset", "save"), "add tailban4 "+addr+" ") })
		if rules := i.run("iptables-"+variant, "-S"); !strings.Contains(rules, "-A INPUT -j TAILBAN\n") {
			t.Errorf("the rules of %s are\n%s", variant, rules)
		}
		i.run("/usr/local/bin/tailban", "status", "--check")
		i.run("systemctl", "stop", "tailban.service")
		if got := i.run("/usr/local/bin/tailban", "teardown"); !strings.Contains(got, "chain TAILBAN with sets tailban removed\n") || !strings.Contains(got, " of action blackhole taken out\n") {
			t.Errorf("the teardown said %q", got)
		}
	}
}
