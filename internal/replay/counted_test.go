package replay

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/tailban/tailban/detector"
)

// Clients and their targets are as many as a set of each holds, whatever family they
// are of and however near to the ends of networks they lie.
func TestClientsAreAllCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	nets := []string{"::", "64:ff9b::", "64:ff9b:1::", "64:ff9b:1:ffff::", "64:ff9b:2::", "2001:db8::", "2001:db8:0:1::", "ff00::", "0:0:0:1::"}
	client := func() netip.Addr {
		lo := []uint64{0, 1, 1<<32 - 1, 1 << 32, 0xffff << 32, 0xfffe << 32, lastOf64, lastOf64 - 1}[r.IntN(8)] + uint64(r.IntN(2)*r.IntN(40))
		if r.IntN(3) == 0 {
			return netip.AddrFrom4([4]byte{byte(lo >> 24), byte(lo >> 16), byte(lo >> 8), byte(lo)})
		}
		b := netip.MustParseAddr(nets[r.IntN(len(nets))]).As16()
		binary.BigEndian.PutUint64(b[8:], lo)
		return netip.AddrFrom16(b).Unmap()
	}
	for _, beside := range []bool{false, true} {
		for _, lines := range []int{0, 1, maxWaiting - 1, maxWaiting, maxWaiting + 1, chunkSize - 1, chunkSize, chunkSize + 1, 20_000} {
			s := newClients()
			if beside {
				s.beside()
				go s.run()
			}
			clients, targets := map[netip.Addr]bool{}, map[netip.Prefix]uint64{}
			for range lines {
				a := client()
				clients[a] = true
				targets[detector.TargetOf(a)]++
				s.add(&detector.Verdict{Client: a, Step: detector.StepCounted})
			}
			s.finish()
			if n, exact := s.all.count(); n != len(clients) || !exact {
				t.Errorf("%d lines: %d clients, want %d", lines, n, len(clients))
			}
			got := s.top.most(len(targets)+1, func(a, b address) int { return a.target().Compare(b.target()) })
			if len(got) != len(targets) || s.top.total != uint64(lines) {
				t.Errorf("%d lines: %d targets of %d lines, want %d", lines, len(got), s.top.total, len(targets))
			}
			for i, c := range got {
				if c.n != targets[c.value.target()] || c.over != 0 {
					t.Errorf("%d lines: %v has %d, want %d", lines, c.value.target(), c.n, targets[c.value.target()])
				}
				if i > 0 && got[i-1].n < c.n {
					t.Errorf("%v with %d stands behind %d", c.value.target(), c.n, got[i-1].n)
				}
			}
		}
	}
}
