package daemon

import (
	"net/netip"
	"testing"
	"time"
)

const unparsedPeer = "most lines of this peer don't parse, so no jail sees them"

func TestSuspectIsNoticed(t *testing.T) {
	peer := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		name      string
		bad, good int // per look
		every     time.Duration
		looks     int
		said      int
	}{
		{"too few", manyLines - 1, 0, upkeep, 1, 0},
		{"many", manyLines, 0, upkeep, 1, 1},
		{"half", manyLines, manyLines, upkeep, 1, 0},
		{"more than half", manyLines + 1, manyLines, upkeep, 1, 1},
		{"said once an hour", manyLines, 0, 20 * time.Minute, 4, 2},
		{"one line at each look", 1, 0, upkeep, 60, 1},
		{"far apart", 1, 0, fadeEvery, 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s suspects
			j, said, now := &journal{}, newSayer(), time.Unix(1_000_000, 0)
			for range c.looks {
				for range c.bad {
					s.bad(peer)
				}
				for range c.good {
					s.good(peer)
				}
				s.look(j.logger(), said, "site", now)
				now = now.Add(c.every)
			}
			j.want(t, c.said, unparsedPeer, "log", "site", "peer", peer)
		})
	}
}

func TestOnlyPeersWithBadLinesAreKept(t *testing.T) {
	var s suspects
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	s.good(a)
	s.bad(b)
	s.good(a)
	if len(s.peers) != 1 || s.peers[b] == nil {
		t.Errorf("kept %v", s.peers)
	}
	s.fade()
	if len(s.peers) != 0 {
		t.Errorf("after a while %v are kept", s.peers)
	}
}

// A crowd of peers with a line each can't push out one with more.
func TestCrowdDoesNotHideASuspect(t *testing.T) {
	var s suspects
	peer := netip.MustParseAddr("192.0.2.1")
	s.bad(peer)
	for i := range manyLines - 1 {
		s.bad(peer)
		for k := range 2 * maxSuspects {
			s.bad(netip.AddrFrom4([4]byte{10, byte(i), byte(k >> 8), byte(k)}))
		}
		if len(s.peers) > maxSuspects {
			t.Fatalf("%d peers are kept, want %d at most", len(s.peers), maxSuspects)
		}
	}
	j := &journal{}
	s.look(j.logger(), newSayer(), "site", time.Now())
	j.want(t, 1, unparsedPeer)
	j.want(t, 1, unparsedPeer, "peer", peer)
}
