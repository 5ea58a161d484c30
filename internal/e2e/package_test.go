package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/netlab"
)

// packageUnits take out of the machine what others need of us, and put our packages
// there, from the folder %s. Services are started by installations, as nothing
// forbids it, and there is no log yet.
const packageUnits = `
rm -rf "$1/root/usr/local/bin/tailban" "$units"/tailban.* "$1/root/usr/lib/sysusers.d/tailban.conf" "$1/root/etc/tailban"
for f in passwd group shadow gshadow; do cp -a "/etc/$f" "$1/root/etc/$f"; done
rm -rf "$1/root/usr/sbin/policy-rc.d" "$1/root/var/log/nginx" "$1/root/var/log/apt" "$1/root/var/log/dpkg.log"
# What apt knows of others, and the index of manual pages, only take time.
rm -rf "$1/root/var/lib/apt/lists"/* "$1/root/var/cache/apt"/*.bin "$1/root/var/lib/man-db/auto-update"
mkdir -p "$1/root/var/www/html" "$1/root/debs"
echo page >"$1/root/var/www/html/index.html"
cp '%s'/*.deb "$1/root/debs"
`

// The package in a real system: TestInsidePackage says what is shown.
func TestPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	for _, program := range []string{"apt-get", "nginx", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("needs Debian's nginx and nftables: ", err)
		}
	}
	// What another process reads, go test doesn't know of when it looks for a result.
	for _, used := range []string{"packaging/*", "packaging/deb/*", "systemd/*", "jails.toml.example"} {
		files, _ := filepath.Glob(filepath.Join("..", "..", used))
		for _, f := range files {
			if _, err := os.Stat(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	debs := t.TempDir()
	for _, version := range []string{"1.0", "1.1"} {
		dist := exec.Command("go", "run", "./internal/dist", "-pgo", "off", "-version", version, "-out", debs)
		dist.Dir = filepath.Join("..", "..")
		if out, err := dist.CombinedOutput(); err != nil {
			t.Fatalf("make the package: %v\n%s", err, out)
		}
	}
	inMachine(t, fmt.Sprintf(packageUnits, debs), "TestInsidePackage")
}

// guest is what TestInsidePackage does to the machine it runs in.
type guest struct {
	*inside
	lab *lab
}

// TestInsidePackage runs in the machine of TestPackage. The package is installed,
// bans nobody before it is told to, is upgraded, removed, and purged.
func TestInsidePackage(t *testing.T) {
	if os.Getenv(insideSystemd) == "" {
		t.Skip("runs inside of TestPackage")
	}
	l := &lab{t: t}
	g := &guest{inside: &inside{T: t, wait: l.wait}, lab: l}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(g.run("journalctl", "-q", "-u", "tailban.service", "-o", "cat"))
		}
	})
	client, visitor, half := g.join("203.0.113.1", "203.0.113.66"), g.join("198.51.100.1", "198.51.100.10"), g.join("192.0.2.1", "192.0.2.10")

	// Without nginx's log, which comes later.
	g.apt("install", "/debs/tailban_1.0-1_amd64.deb")
	g.run("systemctl", "is-active", "tailban.service")
	g.run("systemctl", "is-enabled", "tailban.service")
	if got := g.run("tailban", "version"); got != "tailban 1.0\n" {
		t.Errorf("installed is %s", got)
	}
	g.run("mkdir", "-p", "/var/log/nginx")
	g.run("systemctl", "start", "nginx.service")
	l.wait("nginx", func() bool { return visitor.get("/") == nil })
	g.flood(client, 51)
	l.wait("the decision", func() bool { return strings.Contains(g.run("tailban", "bans"), client.addr.String()) })
	g.emptyKernel("as installed")
	g.served(client)

	g.enforce()
	g.flood(client, 51)
	g.banned(client)
	g.served(visitor)
	g.run("tailban", "unban", client.addr.String())
	forgiven := time.Now().Unix()
	g.served(client)
	// What is in the log of that second is forgiven, too.
	l.wait("the next second", func() bool { return time.Now().Unix() > forgiven })
	g.flood(client, 51)
	g.banned(client)
	g.flood(half, 30)

	g.upgrade(client)
	g.flood(half, 20)
	g.caughtUp()
	if bans := g.run("tailban", "bans"); strings.Contains(bans, half.addr.String()) {
		t.Errorf("after 50 requests, some before the upgrade:\n%s", bans)
	}
	g.flood(half, 1)
	g.banned(half)

	g.apt("remove", "tailban")
	g.emptyKernel("removed")
	g.served(client)
	// What it knew is still there for another time.
	g.apt("install", "/debs/tailban_1.1-1_amd64.deb")
	g.banned(client)
	g.run("tailban", "status", "--check")

	g.apt("purge", "tailban")
	g.emptyKernel("purged")
	g.nothingLeft()
}

// join makes a neighbour of the machine itself.
func (g *guest) join(server, addr string) *neighbour {
	g.Helper()
	n := &neighbour{ns: newNS(g.T), addr: netip.MustParseAddr(addr), server: netip.MustParseAddr(server)}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "to" + strings.ReplaceAll(addr, ".", "")
	here, err := netlink.ParseAddr(server + "/24")
	if err != nil {
		g.Fatal(err)
	}
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: netlab.LinkName(0), PeerNamespace: netlink.NsFd(n.ns.FD())}
	up := func() error {
		link, err := netlink.LinkByName(netlab.LinkName(0))
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	}
	if err := netlink.LinkAdd(veth); err != nil {
		g.Fatal(err)
	}
	if err := errors.Join(netlink.AddrAdd(veth, here), netlink.LinkSetUp(veth), n.ns.AddAddr(netlab.LinkName(0), netip.PrefixFrom(n.addr, 24)), n.ns.Do(up)); err != nil {
		g.Fatal(err)
	}
	return n
}

// apt is what an administrator does, with a package that is there.
func (g *guest) apt(args ...string) {
	g.Helper()
	cmd := exec.Command("apt-get", append([]string{"-y", "-q", "--no-install-recommends"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "APT_LISTCHANGES_FRONTEND=none")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		g.Fatalf("apt-get %v: %v\n%s", args, err, out)
	}
	g.Logf("apt-get %v took %v\n%s", args, time.Since(began).Round(time.Millisecond), out)
}

func (g *guest) status() (st control.Status) {
	g.Helper()
	if err := json.Unmarshal([]byte(g.run("tailban", "status", "--json")), &st); err != nil || len(st.Jails) == 0 || len(st.Logs) != 1 {
		g.Fatalf("the status is %+v, %v", st, err)
	}
	return st
}

// flood has a neighbour ask for a page so often. Each time it is answered: a ban
// comes after the line, which comes after the answer.
func (g *guest) flood(n *neighbour, times int) {
	g.Helper()
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: n.ns.Dialer(), DisableKeepAlives: true}}
	for i := range times {
		resp, err := c.Get("http://" + n.server.String() + "/")
		if err == nil {
			err = resp.Body.Close()
		}
		if err != nil {
			g.Fatalf("request %d of %d: %v", i+1, times, err)
		}
	}
}

func (g *guest) served(n *neighbour) {
	g.Helper()
	g.wait(n.addr.String()+" to get its page", func() bool { return n.get("/") == nil })
}

func (g *guest) banned(n *neighbour) {
	g.Helper()
	g.wait("a ban of "+n.addr.String(), func() bool {
		return strings.Contains(g.run("nft", "list", "ruleset"), n.addr.String()) && n.get("/") != nil
	})
}

func (g *guest) emptyKernel(when string) {
	g.Helper()
	if got := g.run("nft", "list", "ruleset"); got != "" {
		g.Errorf("%s: the kernel has\n%s", when, got)
	}
}

const installed = "/etc/tailban/jails.toml"

// enforce does what the installed configuration says.
func (g *guest) enforce() {
	g.Helper()
	text, err := os.ReadFile(installed)
	if err != nil {
		g.Fatal(err)
	}
	before, command, ok := strings.Cut(string(text), "and run: ")
	command, after, _ := strings.Cut(command, "\n")
	if !ok || !strings.HasPrefix(after, "mode = ") {
		g.Fatalf("the configuration doesn't say how to enforce:\n%s", text)
	}
	// A long window, too: this may be a slow machine.
	after = strings.Replace(after, `window = "60s"`, `window = "10m"`, 1)
	if err := os.WriteFile(installed, []byte(before+"and run: "+command+"\n#"+after), 0o644); err != nil {
		g.Fatal(err)
	}
	g.run("sh", "-c", command)
}

// upgrade keeps the configuration, the bans and where logs were read to, and at no
// time lets pass who is banned.
func (g *guest) upgrade(client *neighbour) {
	g.Helper()
	config, err := os.ReadFile(installed)
	if err != nil {
		g.Fatal(err)
	}
	g.caughtUp()
	before := g.status()
	ctx, done := context.WithCancel(g.Context())
	passed := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			if client.get("/") == nil {
				n++
			}
		}
		passed <- n
	}()
	g.apt("install", "/debs/tailban_1.1-1_amd64.deb")
	done()
	if n := <-passed; n > 0 {
		g.Errorf("during the upgrade %d requests of a banned client passed", n)
	}
	if got, err := os.ReadFile(installed); err != nil || string(got) != string(config) {
		g.Errorf("after the upgrade the configuration is (%v)\n%s", err, got)
	}
	st := g.status()
	if st.Version != "1.1" || st.PID == before.PID || st.Bans != before.Bans || st.Bans == 0 {
		g.Errorf("after the upgrade %s runs (process %d) with %d bans; before it were %s, %d and %d", st.Version, st.PID, st.Bans, before.Version, before.PID, before.Bans)
	}
	if l := st.Logs[0]; l.Lines != 0 || len(l.Files) != 1 || l.Files[0].Offset != before.Logs[0].Files[0].Offset {
		g.Errorf("after the upgrade it has read %d lines anew: %+v, before %+v", l.Lines, l.Files, before.Logs[0].Files)
	}
	g.banned(client)
}

// caughtUp waits until all of the log is read.
func (g *guest) caughtUp() {
	g.Helper()
	g.wait("the log to be read", func() bool {
		fi, err := os.Stat("/var/log/nginx/access.log")
		files := g.status().Logs[0].Files
		return err == nil && len(files) == 1 && files[0].Offset == fi.Size()
	})
}

// nothingLeft looks for what the purged package has left behind.
func (g *guest) nothingLeft() {
	g.Helper()
	if out := g.run("find", "/etc", "/usr", "/var", "/run", "/opt", "/srv", "/tmp", "-xdev", "-name", "*tailban*", "-not", "-name", "tailban-e2e-*"); out != "" {
		g.Errorf("files are left:\n%s", out)
	}
	for _, file := range []string{"passwd", "group", "shadow", "gshadow"} {
		text, err := os.ReadFile("/etc/" + file)
		if err != nil || strings.Contains(string(text), "tailban") {
			g.Errorf("/etc/%s (%v):\n%s", file, err, text)
		}
	}
	if out, err := exec.Command("systemctl", "cat", "tailban.service").CombinedOutput(); err == nil {
		g.Errorf("the unit is left:\n%s", out)
	}
	if out, err := exec.Command("dpkg-query", "-W", "tailban").CombinedOutput(); err == nil {
		g.Errorf("dpkg still knows it: %s", out)
	}
}
