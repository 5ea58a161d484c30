package daemon

import (
	"encoding/binary"
	"net"
	"net/netip"
	"regexp"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// traffic is numbered datagrams that visitors send to the lab's port 80 all the
// time, and which of them arrive.
type traffic struct {
	testing.TB
	mu   sync.Mutex
	from map[string]*sender
}

type sender struct {
	sent, arrived uint64 // how many
	first, last   uint64 // numbers of those that arrived
	at            time.Time
}

const trafficPace = 3 * time.Millisecond

// newTraffic has both visitors send until the end of the test, and waits until
// they are heard.
func newTraffic(v *visitors) *traffic {
	v.Helper()
	f := &traffic{TB: v, from: map[string]*sender{visitor: {}, otherVisitor: {}}}
	sink, err := v.kernelLab.ns.ListenPacket("udp", ":80")
	check(v, err)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	v.Cleanup(func() {
		close(stop)
		sink.Close()
		wg.Wait()
	})
	raw, err := sink.(*net.UDPConn).SyscallConn()
	check(v, err)
	check(v, raw.Control(func(fd uintptr) { // none is lost here on a busy machine
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}))
	wg.Go(func() { f.receive(sink) })
	for _, addr := range []string{visitor, otherVisitor} {
		c, err := v.ns.DialerFrom(netip.MustParseAddr(addr))(v.Context(), "udp", "198.51.100.1:80")
		check(v, err)
		wg.Go(func() { defer c.Close(); f.send(f.from[addr], c, stop) })
	}
	f.passes(visitor)
	f.passes(otherVisitor)
	return f
}

func (f *traffic) receive(sink net.PacketConn) {
	buf := make([]byte, 64)
	for {
		n, from, err := sink.ReadFrom(buf)
		if err != nil {
			return
		}
		host, _, _ := net.SplitHostPort(from.String())
		f.mu.Lock()
		if s := f.from[host]; s != nil && n == 8 {
			s.last, s.at = binary.BigEndian.Uint64(buf), time.Now()
			if s.arrived == 0 {
				s.first = s.last
			}
			s.arrived++
		}
		f.mu.Unlock()
	}
}

func (f *traffic) send(s *sender, c net.Conn, stop <-chan struct{}) {
	tick := time.NewTicker(trafficPace)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		f.mu.Lock()
		s.sent++
		n := s.sent
		f.mu.Unlock()
		_, _ = c.Write(binary.BigEndian.AppendUint64(nil, n)) // who doesn't arrive is missed there
	}
}

func (f *traffic) of(addr string) sender {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *f.from[addr]
}

// passes waits until what is sent from now on arrives, and returns when it did.
func (f *traffic) passes(addr string) time.Time {
	f.Helper()
	sent := f.of(addr).sent
	wait(f, addr+" to be let through", func() bool { return f.of(addr).last > sent })
	return f.of(addr).at
}

// dropped waits until, for so long as twenty datagrams take, none arrives.
func (f *traffic) dropped(addr string) {
	f.Helper()
	was := f.of(addr)
	wait(f, addr+" to be kept out", func() bool {
		is := f.of(addr)
		if is.arrived > was.arrived {
			was = is
		}
		return is.sent >= was.sent+20
	})
}

// wantNoneSince checks that nothing has come from an address since then.
func (f *traffic) wantNoneSince(was sender, addr string) {
	f.Helper()
	if is := f.of(addr); is.arrived != was.arrived {
		f.Errorf("%d of %d datagrams of %s came through", is.arrived-was.arrived, is.sent-was.sent, addr)
	}
}

// wantAll checks that all that an address has sent has arrived.
func (f *traffic) wantAll(addr string) {
	f.Helper()
	f.passes(addr)
	if s := f.of(addr); s.arrived < 10 || s.arrived != s.last-s.first+1 {
		f.Errorf("%d of %d datagrams of %s arrived", s.arrived, s.last-s.first+1, addr)
	}
}

// rules is our table as nft shows it, without the time that its bans have left.
func (l *kernelLab) rules() string {
	l.Helper()
	return timeouts.ReplaceAllString(l.nft("-s", "list", "table", "inet", "tailban"), "")
}

var timeouts = regexp.MustCompile(` (timeout|expires) \S*[dhms]`)
