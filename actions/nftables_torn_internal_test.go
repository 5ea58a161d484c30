//go:build linux

package actions

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// A listing lacks what has moved while it went on, and says that it is not whole.
func TestTornListing(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	n := nftablesIn(t, ns, NftablesOptions{})
	if err := n.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	const networks = 1000
	var entries []Entry
	for i := range networks {
		a := netip.AddrFrom4([4]byte{100, byte(i >> 7), byte(i << 1), 0})
		entries = append(entries, Entry{Target: netip.PrefixFrom(a, 24), Left: time.Hour})
	}
	if err := n.Apply(t.Context(), entries, nil); err != nil {
		t.Fatal(err)
	}
	set := setNamed(t, n, setNet4)
	other, err := nftables.New(nftables.WithNetNSFd(ns.FD()))
	if err != nil {
		t.Fatal(err)
	}
	lost := func(gone ...int) (lost int, whole bool) {
		t.Helper()
		request, err := dumpRequest(set)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := n.socket.Send(request)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range gone { // when the first part has been made
			if err := other.SetDeleteElements(set, of(entries[i].Target, 0).elements()); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
		elements, whole, err := readDump(n.socket, sent.Header.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		there := map[netip.Addr]bool{}
		for _, e := range elements {
			a, _ := netip.AddrFromSlice(e.Key)
			there[a] = there[a] || !e.IntervalEnd
		}
		for i, e := range entries {
			if !there[e.Target.Addr()] && !slices.Contains(gone, i) {
				lost++
			}
		}
		return lost, whole
	}
	if lost, whole := lost(); lost > 0 || !whole {
		t.Errorf("whole is %t of a listing in which nobody changes a thing, it lacks %d networks", whole, lost)
	}
	// At both ends, wherever the kernel begins to count.
	lacks, whole := lost(0, networks-1)
	if whole {
		t.Error("a listing says that it is whole, during which two networks were taken out")
	}
	t.Logf("that one lacks %d networks that nobody has touched", lacks)
	if elements, err := dumpElements(n.socket, set); err != nil || len(elements) != 2*(networks-2) {
		t.Errorf("the next one has %d elements, %v, want %d", len(elements), err, 2*(networks-2))
	}
}

func setNamed(t *testing.T, n *Nftables, name string) *nftables.Set {
	t.Helper()
	for _, s := range banSets(n.opt) {
		if s.Name == name {
			return s
		}
	}
	t.Fatal("there is no set ", name)
	return nil
}

// A set is listed again, but not for ever.
func TestListedUntilWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ torn, want int }{{0, 1}, {3, 4}, {1000, dumpTries}} {
		tries := 0
		elements, err := untilWhole(func() ([]nftables.SetElement, bool, error) {
			tries++
			return make([]nftables.SetElement, tries), tries > c.torn, nil
		})
		if tries != c.want {
			t.Errorf("%d torn listings: %d tries, want %d", c.torn, tries, c.want)
		}
		if c.torn < dumpTries && (err != nil || len(elements) != tries) || c.torn > dumpTries && !errors.Is(err, errInterrupted) {
			t.Errorf("%d torn listings: %d elements, %v", c.torn, len(elements), err)
		}
	}
}

func TestConsistency(t *testing.T) {
	t.Parallel()
	part := func(flags uint16, generation byte) *syscall.NetlinkMessage {
		return &syscall.NetlinkMessage{
			Header: syscall.NlMsghdr{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWSETELEM, Flags: unix.NLM_F_MULTI | flags},
			Data:   []byte{unix.NFPROTO_INET, 0, 0, generation},
		}
	}
	done := func(flags uint16) *syscall.NetlinkMessage {
		return &syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.NLMSG_DONE, Flags: unix.NLM_F_MULTI | flags}, Data: make([]byte, 4)}
	}
	for _, c := range []struct {
		name  string
		parts []*syscall.NetlinkMessage
		torn  bool
	}{
		{"nothing", []*syscall.NetlinkMessage{done(0)}, false},
		{"of one state", []*syscall.NetlinkMessage{part(0, 7), part(0, 7), done(0)}, false},
		{"of two", []*syscall.NetlinkMessage{part(0, 7), part(0, 7), part(0, 8), part(0, 8), done(0)}, true},
		{"of two, one of them the first", []*syscall.NetlinkMessage{part(0, 0), part(0, 1), done(0)}, true},
		{"a part with the flag", []*syscall.NetlinkMessage{part(0, 7), part(unix.NLM_F_DUMP_INTR, 7), part(0, 7), done(0)}, true},
		{"the flag at the end", []*syscall.NetlinkMessage{part(0, 7), done(unix.NLM_F_DUMP_INTR)}, true},
	} {
		var got consistency
		for _, m := range c.parts {
			got.note(m)
		}
		if got.torn != c.torn {
			t.Errorf("%s: torn is %t, want %t", c.name, got.torn, c.torn)
		}
	}
}
