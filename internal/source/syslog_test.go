package source

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const nginxHeader = "<190>Nov 30 05:19:53 www1 nginx: "

func beginSyslog(t *testing.T, o SyslogOptions) (*session, *Syslog) {
	t.Helper()
	var y *Syslog
	s := beginSource(t, func(l *slog.Logger) Source {
		o.Log, o.Logger = "web", l
		y = NewSyslog(o)
		y.pause.least = time.Millisecond
		return y
	})
	s.announced()
	return s, y
}

func (s *session) following(y *Syslog) {
	s.t.Helper()
	s.quietUntil("the socket", func() bool { return y.Stats().State == Following })
}

func me() string { return strconv.Itoa(os.Getuid()) }

func socketPath(t *testing.T) string { return filepath.Join(t.TempDir(), "made", "nginx.sock") }

func dialUnix(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := c.Write([]byte(text))
	must(t, err)
}

// sayWith sends ancillary data along.
func sayWith(t *testing.T, c *net.UnixConn, text string, oob []byte) {
	t.Helper()
	must(t, control(c, func(fd int) error { return unix.Sendmsg(fd, []byte(text), oob, nil, 0) }))
}

func TestSyslogUnix(t *testing.T) {
	path := socketPath(t)
	s, y := beginSyslog(t, SyslogOptions{
		Network: "unix", Address: path, FromUsers: []string{me()}, MaxLine: 100,
		Resume: []Position{{Log: "web", Path: "unix:" + path, Offset: 1000}, {Log: "x", Offset: 7}},
	})
	s.following(y)
	c := dialUnix(t, path)
	say(t, c, nginxHeader+"one")
	say(t, c, nginxHeader+"two\nforged\n")
	say(t, c, nginxHeader+strings.Repeat("x", 101))
	say(t, c, nginxHeader+strings.Repeat("y", 10_000))
	s.wants("one\ntwo\\nforged\n" + strings.Repeat("x", 100) + strings.Repeat("y", 100))
	s.contiguous()
	if p := s.parts[0]; p.Start != 1000 || p.File.Path != "unix:"+path {
		t.Errorf("first part %+v", p)
	}
	if st := y.Stats(); st.Lines != 4 || st.Cut != 2 || st.Refused+st.Dropped != 0 {
		t.Errorf("stats %+v", st)
	}
	fi, err := os.Stat(path)
	must(t, err)
	if fi.Mode().Perm() != 0o666 {
		t.Errorf("the socket has mode %v", fi.Mode())
	}
	if fi, err = os.Stat(filepath.Dir(path)); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("its folder: %v, %v", fi.Mode(), err)
	}
}

// Only who is named may send: not root, not the daemon's own user.
func TestSyslogOtherUsersAreRefused(t *testing.T) {
	path := socketPath(t)
	s, y := beginSyslog(t, SyslogOptions{Network: "unix", Address: path, FromUsers: []string{"64999", "user-that-is-nowhere"}})
	s.following(y)
	c := dialUnix(t, path)
	say(t, c, nginxHeader+"forged")
	say(t, c, nginxHeader+"forged again")
	s.quietUntil("both to be refused", func() bool { return y.Stats().Refused == 2 })
	if os.Getuid() == 0 { // who may send in the name of others
		sayWith(t, c, nginxHeader+"true", unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: 64999, Gid: 1}))
		sayWith(t, c, nginxHeader+"forged", unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: 64998, Gid: 1}))
		s.wants("true\n")
		s.quietUntil("the third to be refused", func() bool { return y.Stats().Refused == 3 })
	}
	if n := s.said.count("refused: may not send"); n != 1 {
		t.Errorf("said %d times that somebody is refused: %s", n, s.said)
	}
	if u, err := user.Current(); err != nil || s.said.count(fmt.Sprintf("user=%s uid=%d", u.Username, os.Getuid())) != 1 {
		t.Errorf("did not say who it was (%v): %s", err, s.said)
	}
	if n := s.said.count("user-that-is-nowhere"); n == 0 {
		t.Errorf("did not say that a user is unknown: %s", s.said)
	}
}

// Descriptors that somebody sends along don't stay open with us.
func TestSyslogTakesNoDescriptors(t *testing.T) {
	path := socketPath(t)
	s, y := beginSyslog(t, SyslogOptions{Network: "unix", Address: path, FromUsers: []string{me()}})
	s.following(y)
	c := dialUnix(t, path)
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	defer unix.Close(pipe[1])
	sayWith(t, c, "with a descriptor", unix.UnixRights(pipe[0]))
	must(t, unix.Close(pipe[0]))
	s.wants("with a descriptor\n")
	// Nobody can read it any more, if we don't have it.
	if _, err := unix.Write(pipe[1], []byte("x")); err != unix.EPIPE {
		t.Errorf("writing to it: %v, want EPIPE", err)
	}
}

// A socket of before is replaced; one that somebody reads, and what is no
// socket, are left alone.
func TestSyslogUnixPlaces(t *testing.T) {
	t.Run("of before", func(t *testing.T) {
		path := socketPath(t)
		for range 2 {
			s, y := beginSyslog(t, SyslogOptions{Network: "unix", Address: path, FromUsers: []string{me()}})
			s.following(y)
			say(t, dialUnix(t, path), "one")
			s.wants("one\n")
			s.stop()
		}
	})
	t.Run("in use", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		other, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		must(t, err)
		s, y := beginSyslog(t, SyslogOptions{Network: "unix", Address: path, FromUsers: []string{me()}})
		s.quietUntil("the trouble", func() bool { return y.Stats().State == Failing })
		if st := y.Stats(); !strings.Contains(st.Err, "does another program receive there?") {
			t.Errorf("stats %+v", st)
		}
		other.Close()
		s.following(y)
		if y.Stats().Err != "" || s.said.count("reading again") != 1 {
			t.Errorf("stats %+v, said %s", y.Stats(), s.said)
		}
	})
	t.Run("in a folder of everybody's", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o777))
		s, y := beginSyslog(t, SyslogOptions{Network: "unix", Address: filepath.Join(dir, "s"), FromUsers: []string{me()}})
		s.quietUntil("the trouble", func() bool { return strings.Contains(y.Stats().Err, "folder of its own") })
		must(t, os.Chmod(dir, 0o777|os.ModeSticky))
		s.following(y)
	})
	t.Run("a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		must(t, os.WriteFile(path, []byte("x"), 0o600))
		s, y := beginSyslog(t, SyslogOptions{Network: "unix", Address: path, FromUsers: []string{me()}})
		s.quietUntil("the trouble", func() bool { return y.Stats().State == Failing })
		if b, err := os.ReadFile(path); string(b) != "x" {
			t.Errorf("the file is gone: %v", err)
		}
	})
}

// passed makes a socket as systemd does.
func passed(t *testing.T, path string) *os.File {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	must(t, setOption(c, unix.SO_PASSCRED, 1))
	f, err := c.File()
	must(t, err)
	must(t, c.Close())
	t.Cleanup(func() { f.Close() })
	return f
}

// What is sent while nobody reads is there at the next start.
func TestSyslogPassedSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f := passed(t, path)
	c := dialUnix(t, path)
	o := SyslogOptions{Network: "unix", Address: path, File: f, FromUsers: []string{me()}}
	want := ""
	n := 0
	for range 20 {
		say(t, c, fmt.Sprintf("while stopped %d", n))
		s, _ := beginSyslog(t, o)
		say(t, c, fmt.Sprintf("while running %d", n))
		want = fmt.Sprintf("while stopped %d\nwhile running %d\n", n, n)
		s.wants(want)
		o.Resume = s.stop()
		n++
	}
	if got := o.Resume[0].Offset; got <= 20*30 {
		t.Errorf("offset %d after 40 lines", got)
	}
}

func TestSyslogPassedSocketIsAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for name, o := range map[string]SyslogOptions{
		"path":    {Network: "unix", Address: path + "2", FromUsers: []string{me()}},
		"network": {Network: "udp", Address: "127.0.0.1:514"},
		"kind":    {Network: "tcp", Address: "127.0.0.1:514"},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(path)
			o.File = passed(t, path)
			s, y := beginSyslog(t, o)
			s.quietUntil("the trouble", func() bool { return y.Stats().State == Failing })
			if st := y.Stats(); !strings.Contains(st.Err, "systemd has passed") {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

// Nobody takes lines: the sender isn't held up, what doesn't fit is counted, and
// every other line comes whole and in order.
func TestSyslogBehind(t *testing.T) {
	path := socketPath(t)
	s, y := beginSyslog(t, SyslogOptions{Network: "unix", Address: path, FromUsers: []string{me()}, Queue: 1 << 20, MaxLine: 1 << 10})
	s.following(y)
	c := dialUnix(t, path)
	const sent = 20_000
	for i := range sent {
		say(t, c, fmt.Sprintf("%06d %s", i, strings.Repeat("x", 200)))
	}
	say(t, c, "the end is "+strings.Repeat("-", 2000)) // may be dropped as well
	total := func() int64 { st := y.Stats(); return st.Dropped + (st.Queued+st.Bytes)/208 }
	waitUntil(t, "all to be read", func() bool { return total() >= sent })
	st := y.Stats()
	if st.Dropped == 0 || st.Queued > 1<<20 {
		t.Fatalf("stats %+v", st)
	}
	// Whatever is queued now comes.
	left := st.Queued
	s.until("what is queued", func([]part) bool { return int64(len(s.text())) >= left })
	last := -1
	for _, line := range strings.Split(strings.TrimSuffix(s.text(), "\n"), "\n") {
		if strings.HasPrefix(line, "the end") {
			continue
		}
		n, err := strconv.Atoi(line[:6])
		if err != nil || n <= last || len(line) != 207 {
			t.Fatalf("line %q behind line %d", line, last)
		}
		last = n
	}
	s.contiguous()
}

func TestSyslogUDP(t *testing.T) {
	addr := freePort(t, "udp")
	s, y := beginSyslog(t, SyslogOptions{Network: "udp", Address: addr})
	s.following(y)
	c, err := net.Dial("udp", addr)
	must(t, err)
	defer c.Close()
	say(t, c, nginxHeader+"one")
	say(t, c, "<165>1 - - - - - - two")
	s.wants("one\ntwo\n")
	if st := y.Stats(); st.KernelDropped != 0 || st.Refused != 0 || st.Name != "udp:"+addr {
		t.Errorf("stats %+v", st)
	}
}

// The kernel tells its own count with the datagrams that it keeps afterwards.
func TestSyslogUDPKernelDrops(t *testing.T) {
	p, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	must(t, p.(*net.UDPConn).SetReadBuffer(1))
	f, err := p.(*net.UDPConn).File()
	must(t, err)
	defer f.Close()
	must(t, p.Close())
	c, err := net.Dial("udp", p.LocalAddr().String())
	must(t, err)
	defer c.Close()
	const sent = 50
	for range sent {
		say(t, c, "early"+strings.Repeat(".", 500))
	}
	s, y := beginSyslog(t, SyslogOptions{Network: "udp", Address: p.LocalAddr().String(), File: f})
	s.until("what the kernel has kept", func([]part) bool { return strings.Contains(s.text(), "early") })
	say(t, c, "late")
	s.until("the rest", func([]part) bool { return strings.Contains(s.text(), "late") })
	if kept, st := int64(strings.Count(s.text(), "early")), y.Stats(); kept == sent || st.KernelDropped != sent-kept {
		t.Errorf("%d of %d were kept, stats %+v", kept, sent, st)
	}
}

func TestSyslogNetworks(t *testing.T) {
	y := func(allowed ...string) *Syslog {
		var o SyslogOptions
		for _, p := range allowed {
			o.AllowFrom = append(o.AllowFrom, netip.MustParsePrefix(p))
		}
		return NewSyslog(o)
	}
	for _, tt := range []struct {
		allowed []string
		from    string
		want    bool
	}{
		{nil, "127.0.0.1", true},
		{nil, "127.9.9.9", true},
		{nil, "::1", true},
		{nil, "::ffff:127.0.0.1", true},
		{nil, "10.0.0.1", false},
		{nil, "fe80::1%eth0", false},
		{[]string{"10.0.0.0/8"}, "10.0.0.1", true},
		{[]string{"10.0.0.0/8"}, "::ffff:10.0.0.1", true},
		{[]string{"10.0.0.0/8"}, "11.0.0.1", false},
		{[]string{"10.0.0.0/8"}, "127.0.0.1", false},
		{[]string{"10.0.0.0/8", "fe80::/64"}, "fe80::1%eth0", true},
	} {
		if got := y(tt.allowed...).from(netip.MustParseAddr(tt.from)); got != tt.want {
			t.Errorf("%s with %v: %v, want %v", tt.from, tt.allowed, got, tt.want)
		}
	}
}

// Whoever is refused is named by an address that can be put into allow_from.
func TestSyslogRefusedAddress(t *testing.T) {
	for _, network := range []string{"udp", "tcp"} {
		_, port, err := net.SplitHostPort(freePort(t, network))
		must(t, err)
		s, y := beginSyslog(t, SyslogOptions{Network: network, Address: "[::]:" + port, AllowFrom: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
		s.following(y)
		c, err := net.Dial(network, "127.0.0.1:"+port)
		must(t, err)
		_, err = c.Write([]byte("x\n"))
		must(t, err)
		s.quietUntil("it to be refused, and told", func() bool { return y.Stats().Refused > 0 && s.said.count("addr=") > 0 })
		if s.said.count("addr=127.0.0.1") != 1 {
			t.Errorf("%s: said %s", network, s.said)
		}
		must(t, c.Close())
	}
}

func freePort(t *testing.T, network string) string {
	t.Helper()
	if network == "udp" {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		must(t, err)
		defer c.Close()
		return c.LocalAddr().String()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestSyslogTCP(t *testing.T) {
	addr := freePort(t, "tcp")
	s, y := beginSyslog(t, SyslogOptions{Network: "tcp", Address: addr, MaxLine: 100, MaxConnections: 2})
	s.following(y)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	closed := func(c net.Conn) {
		t.Helper()
		must(t, c.SetReadDeadline(time.Now().Add(patience)))
		if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("the connection stays open: %v", err)
		}
	}
	lines, counted := dial(), dial()
	say(t, lines, nginxHeader+"o")
	say(t, lines, "ne\n")
	s.wants("one\n")
	say(t, counted, "8 <190>two11 <190>th\nre")
	say(t, counted, "e")
	s.wants("one\ntwo\nth\\nree\n")
	s.quietUntil("two connections", func() bool { return y.Stats().Connections == 2 })
	closed(dial())
	s.quietUntil("it to be counted", func() bool { return y.Stats().Refused == 1 })
	say(t, counted, "9 <190>")
	must(t, counted.Close())
	s.quietUntil("the end of one", func() bool { return y.Stats().Connections == 1 })
	if st := y.Stats(); st.Malformed != 1 {
		t.Errorf("stats %+v", st)
	}
	say(t, lines, nginxHeader+strings.Repeat("x", 20_000)+"\nbehind\n")
	s.wants("one\ntwo\nth\\nree\n" + strings.Repeat("x", 100) + "behind\n")
	s.contiguous()
	s.stop()
	closed(lines)
}

// A connection that is silent is closed.
func TestSyslogTCPIdle(t *testing.T) {
	addr := freePort(t, "tcp")
	s, y := beginSyslog(t, SyslogOptions{Network: "tcp", Address: addr, Idle: 10 * time.Millisecond})
	s.following(y)
	c, err := net.Dial("tcp", addr)
	must(t, err)
	defer c.Close()
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the connection stays open: %v", err)
	}
}

// What was taken from the socket is offered after the end, for a while.
func TestSyslogHandsOverAtTheEnd(t *testing.T) {
	path := socketPath(t)
	s, y := beginSyslog(t, SyslogOptions{Network: "unix", Address: path, FromUsers: []string{me()}})
	s.following(y)
	c := dialUnix(t, path)
	for range 100 {
		say(t, c, "line")
	}
	waitUntil(t, "all to be read", func() bool { st := y.Stats(); return st.Queued+st.Bytes >= 500 })
	s.cancel()
	s.wants(strings.Repeat("line\n", 100))
}

// What the logger of util-linux sends in its formats; Apache logs through it.
func TestSyslogFromLogger(t *testing.T) {
	if _, err := exec.LookPath("logger"); err != nil {
		t.Skip("needs logger")
	}
	path := socketPath(t)
	udp, tcp := freePort(t, "udp"), freePort(t, "tcp")
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	for name, tt := range map[string]struct {
		o    SyslogOptions
		args []string
	}{
		"unix, RFC 3164":          {SyslogOptions{Network: "unix", Address: path, FromUsers: []string{me()}}, []string{"--socket", path}},
		"unix, with a pid":        {SyslogOptions{Network: "unix", Address: path, FromUsers: []string{me()}}, []string{"--socket", path, "--id=4242"}},
		"UDP, RFC 5424":           {SyslogOptions{Network: "udp", Address: udp}, []string{"--server", "127.0.0.1", "--port", port(udp), "--udp", "--rfc5424"}},
		"UDP, RFC 3164 with host": {SyslogOptions{Network: "udp", Address: udp}, []string{"--server", "127.0.0.1", "--port", port(udp), "--udp", "--rfc3164"}},
		"UDP, RFC 5424 with data": {SyslogOptions{Network: "udp", Address: udp}, []string{"--server", "127.0.0.1", "--port", port(udp), "--udp", "--sd-id", "x@1", "--sd-param", `k="v"`}},
		"TCP, lines":              {SyslogOptions{Network: "tcp", Address: tcp}, []string{"--server", "127.0.0.1", "--port", port(tcp), "--tcp"}},
		"TCP, counted":            {SyslogOptions{Network: "tcp", Address: tcp}, []string{"--server", "127.0.0.1", "--port", port(tcp), "--tcp", "--octet-count"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, y := beginSyslog(t, tt.o)
			s.following(y)
			cmd := exec.Command("logger", append([]string{"--tag", "shop", "--size", "64KiB"}, tt.args...)...)
			cmd.Stdin = strings.NewReader(line1 + "\n" + line1 + "2\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s.wants(line1 + "\n" + line1 + "2\n")
			s.stop()
		})
	}
}
