package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

func webJail(dir string, limit int, ban string) string {
	return fmt.Sprintf(`
[logs.site]
files = %q
[jails.web]
limit = %d
window = "60s"
ban = %q
[actions.firewall]
type = "nftables"
`, filepath.Join(dir, "access.log"), limit, ban)
}

// The main job: a client that floods a real nginx is dropped, connections
// that it holds included; nobody else is; and it is let back in when its time
// is up although the daemon was killed meanwhile.
func TestFloodIsDroppedAndLetBackIn(t *testing.T) {
	l := newLab(t)
	attacker := l.join("203.0.113.1", "203.0.113.66")
	bystander := l.join("198.51.100.1", "198.51.100.10")
	l.nginx()
	d := l.tailban(webJail(l.dir, 50, "6s"))

	held := attacker.dial(t, "80")
	if err := ask(held, "/kept"); err != nil {
		t.Fatalf("before the flood: %v", err)
	}
	echo := attacker.echo(t)
	outbound := l.outbound(t, echo)
	if err := speak(outbound); err != nil {
		t.Fatalf("our own connection to the attacker, before: %v", err)
	}

	asked := 1
	for ; asked < 51; asked++ {
		if err := attacker.get("/"); err != nil {
			t.Fatalf("request %d of 51 got no answer: %v", asked+1, err)
		}
	}
	l.wait("the ban", func() bool { _, yes := l.held(attacker.addr); return yes })
	banned := time.Now()

	if err := ask(held, "/kept"); err == nil {
		t.Error("the connection that was open before the ban still works")
	}
	if err := attacker.get("/"); err == nil {
		t.Error("a new connection works")
	}
	if err := bystander.get("/"); err != nil {
		t.Errorf("somebody else is cut off: %v", err)
	}
	if err := speak(outbound); err != nil {
		t.Errorf("our own open connection to the banned host: %v", err)
	}
	if err := speak(l.outbound(t, echo)); err != nil {
		t.Errorf("a new connection of our own to the banned host: %v", err)
	}
	if e, _ := l.held(attacker.addr); e.Packets == 0 {
		t.Error("no packet was counted as dropped")
	}

	d.stop(syscall.SIGKILL)
	if err := attacker.get("/"); err == nil {
		t.Error("the ban fell with the daemon")
	}
	if err := bystander.get("/"); err != nil {
		t.Errorf("somebody else is cut off without the daemon: %v", err)
	}
	l.wait("the end of the ban", func() bool { return attacker.get("/") == nil })
	if lasted := time.Since(banned); lasted < 4*time.Second {
		t.Errorf("a ban of 6 s ended after %v", lasted)
	}

	// The next daemon doesn't ban for what the first has counted.
	l.tailban(webJail(l.dir, 50, "6s"))
	if _, yes := l.held(attacker.addr); yes {
		t.Error("banned again for the same lines")
	}
	if err := attacker.get("/"); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// From the line to the kernel, over several clients.
func TestBanLatency(t *testing.T) {
	l := newLab(t)
	l.join("203.0.113.1", "203.0.113.2") // the server needs a link to be reached from outside
	log := l.write("access.log", "")
	l.tailban(webJail(l.dir, 0, "1m"))
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	for i := range 11 {
		client := fmt.Sprintf("203.0.113.%d", 100+i)
		line := fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n", client, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
		written := time.Now()
		if _, err := f.WriteString(line); err != nil {
			t.Fatal(err)
		}
		l.wait("the ban of "+client, func() bool { _, yes := l.held(netip.MustParseAddr(client)); return yes })
		took = append(took, time.Since(written))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	t.Logf("line to kernel: median %v, least %v, most %v", median, took[0], took[len(took)-1])
	if median > 100*time.Millisecond {
		t.Errorf("median %v from line to kernel, want 100 ms at most", median)
	}
}

// IPv6: one address floods, its /64 is banned, the next /64 is not.
func TestIPv6(t *testing.T) {
	l := newLab(t)
	attacker := l.join("2001:db8:1::1", "2001:db8:1::66")
	bystander := l.join("2001:db8:2::1", "2001:db8:2::10")
	l.nginx()
	l.tailban(webJail(l.dir, 10, "1m"))
	for i := range 11 {
		if err := attacker.get("/"); err != nil {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
	// The /64 holds an address of the server itself, so that the client alone
	// is banned.
	l.wait("the ban", func() bool { e, yes := l.held(attacker.addr); return yes && e.Target.Bits() == 128 })
	if err := attacker.get("/"); err == nil {
		t.Error("the attacker still gets answers")
	}
	if err := bystander.get("/"); err != nil {
		t.Errorf("somebody else is cut off: %v", err)
	}
}

// Rotation as logrotate does it, nginx writing to the renamed file until it is
// told to re-open, and once with the daemon stopped: each line counts once.
func TestRotation(t *testing.T) {
	l := newLab(t)
	client := l.join("203.0.113.1", "203.0.113.66")
	cmd := l.nginx()
	log := filepath.Join(l.dir, "access.log")
	exactly := func(n int) string {
		return webJail(l.dir, n-1, "1m") + fmt.Sprintf(`
[jails.doubled]
limit = %d
window = "60s"
ban = "1m"
mode = "observe"
`, n)
	}
	get := func(n int) {
		t.Helper()
		for range n {
			if err := client.get("/"); err != nil {
				t.Fatal(err)
			}
		}
	}
	rotate := func(between int) {
		t.Helper()
		for i := 3; i > 0; i-- { // as logrotate: .2 → .3, .1 → .2
			_ = os.Rename(fmt.Sprintf("%s.%d", log, i), fmt.Sprintf("%s.%d", log, i+1))
		}
		if err := os.Rename(log, log+".1"); err != nil {
			t.Fatal(err)
		}
		get(between)
		if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		l.wait("nginx to re-open its log", func() bool { _, err := os.Stat(log); return err == nil })
	}

	// The daemon is stopped while 20 + 20 + 20 lines are written around a
	// rotation; started again, it must have seen 60, and not 61.
	d := l.tailban(fmt.Sprintf(`
[logs.site]
files = %q
[jails.first]
limit = 4
window = "60s"
ban = "1m"
mode = "observe"
`, log))
	get(5)
	l.wait("the first lines to be counted", func() bool { return d.said("would be banned (observe)") == 1 })
	d.stop(syscall.SIGTERM)
	get(20)
	rotate(20)
	get(20)
	d = l.tailban(exactly(60))
	l.wait("the ban at the 60th line", func() bool { _, yes := l.held(client.addr); return yes })
	if d.said("would be banned (observe)") != 0 {
		t.Error("a line was counted twice")
	}
	d.stop(syscall.SIGTERM)
	teardown(t, l)

	// The daemon runs through three rotations.
	if err := os.RemoveAll(filepath.Join(l.dir, "state")); err != nil {
		t.Fatal(err)
	}
	rotate(0) // a first start looks back
	d = l.tailban(exactly(75))
	for i := range 3 {
		get(8)
		rotate(8)
		get(9)
		l.wait("the new file to be read", func() bool { return d.said("reading log") == i+2 })
	}
	l.wait("the ban at the 75th line", func() bool { _, yes := l.held(client.addr); return yes })
	if d.said("would be banned (observe)") != 0 {
		t.Error("a line was counted twice")
	}
}

func teardown(t *testing.T, l *lab) {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "teardown", "-c", filepath.Join(l.dir, "jails.toml"))
	if err := l.server.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// echo runs a server on the neighbour that sends back what it gets.
func (n *neighbour) echo(t *testing.T) string {
	t.Helper()
	lis, err := n.ns.Listen("tcp", ":9000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return net.JoinHostPort(n.addr.String(), "9000")
}

// outbound is a connection from the server to somebody.
func (l *lab) outbound(t *testing.T, to string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := l.server.Dialer()(ctx, "tcp", to)
	if err != nil {
		t.Fatalf("our own connection to %s: %v", to, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func speak(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return err
	}
	_, err := bufio.NewReader(c).ReadString('\n')
	return err
}
