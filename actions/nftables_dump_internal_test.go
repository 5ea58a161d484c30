//go:build linux

package actions

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Our reading of a set is that of the library.
func TestDumpIsThatOfTheLibrary(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	n := nftablesIn(t, ns, NftablesOptions{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	if err := n.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	sets, err := n.conn.GetSets(tableOf(n.opt))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{setBan4: 3000, setNet4: 2, setBan6: 2, setAllow4: 2, setHost6: 0}
	n.fillWith(t, 3000)
	for _, set := range sets {
		ours, theirs := bothDumps(t, n, set)
		if k, ok := want[set.Name]; ok && len(ours) != k {
			t.Errorf("set %s: %d elements, want %d", set.Name, len(ours), k)
		}
		if len(ours) != len(theirs) {
			t.Fatalf("set %s: %d elements, the library reads %d", set.Name, len(ours), len(theirs))
		}
		for i := range ours {
			if d := ours[i].Expires - theirs[i].Expires; d < 0 || d > time.Minute {
				t.Fatalf("set %s: time left is %v, the library reads %v", set.Name, ours[i].Expires, theirs[i].Expires)
			}
			ours[i].Expires, theirs[i].Expires = 0, 0
			if !reflect.DeepEqual(ours[i], theirs[i]) {
				t.Fatalf("set %s: element %+v, the library reads %+v", set.Name, ours[i], theirs[i])
			}
		}
	}
	// The socket is as it was, also after a refusal.
	gone := &nftables.Set{Table: tableOf(n.opt), Name: "gone"}
	if _, err := dumpElements(n.socket, gone); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a set that is not there: %v", err)
	}
	if _, err := n.conn.GetGen(); err != nil {
		t.Errorf("the connection after that: %v", err)
	}
}

// bothDumps reads a set in both ways, in the order of its keys. While the kernel makes its
// table larger some elements come twice or not at all, in either way: then it is read
// again.
func bothDumps(t *testing.T, n *Nftables, set *nftables.Set) (ours, theirs []nftables.SetElement) {
	t.Helper()
	byKey := func(a, b nftables.SetElement) int { return bytes.Compare(a.Key, b.Key) }
	for range 100 {
		var err error
		if ours, err = dumpElements(n.socket, set); err != nil {
			t.Fatal(err)
		}
		if theirs, err = n.conn.GetSetElements(set); err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(ours, byKey)
		slices.SortStableFunc(theirs, byKey)
		if slices.EqualFunc(ours, theirs, func(a, b nftables.SetElement) bool { return byKey(a, b) == 0 }) {
			break
		}
	}
	return ours, theirs
}

// fillWith puts so many addresses, a network and an element with counts into
// the sets.
func (n *Nftables) fillWith(t *testing.T, addresses int) {
	t.Helper()
	sets := banSets(n.opt)
	var v4 []nftables.SetElement
	for i := range addresses {
		v4 = append(v4, nftables.SetElement{Key: []byte{10, 0, byte(i >> 8), byte(i)}, Timeout: time.Duration(i+1000) * time.Second})
	}
	counted := nftables.SetElement{Key: make([]byte, 16), Counter: &expr.Counter{Packets: 1<<40 + 7, Bytes: 1<<50 + 9}}
	forGood := nftables.SetElement{Key: bytes.Repeat([]byte{0xff}, 16)}
	for i, e := range [][]nftables.SetElement{v4, {counted, forGood}, nil, of(netip.MustParsePrefix("198.51.100.0/24"), time.Hour).elements()} {
		if err := n.conn.SetAddElements(sets[i], e); err != nil {
			t.Fatal(err)
		}
		if err := n.conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzElements: whatever comes is read or refused.
func FuzzElements(f *testing.F) {
	attribute := func(kind uint16, data []byte) []byte {
		b, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: kind, Data: data}})
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	whole := func(element ...[]byte) []byte {
		one := attribute(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, bytes.Join(element, nil))
		return append(make([]byte, 4), attribute(unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, one)...)
	}
	key := attribute(unix.NFTA_SET_ELEM_KEY, attribute(unix.NFTA_DATA_VALUE, []byte{10, 0, 0, 1}))
	f.Add(whole(key, attribute(unix.NFTA_SET_ELEM_TIMEOUT, make([]byte, 8))))
	f.Add(whole(key, attribute(unix.NFTA_SET_ELEM_FLAGS, binary.BigEndian.AppendUint32(nil, 1))))
	f.Add(whole(key, attribute(unix.NFTA_SET_ELEM_EXPR, append(attribute(unix.NFTA_EXPR_NAME, []byte("counter\x00")),
		attribute(unix.NFTA_EXPR_DATA, attribute(unix.NFTA_COUNTER_PACKETS, make([]byte, 8)))...))))
	f.Add(whole(attribute(unix.NFTA_SET_ELEM_EXPIRATION, []byte{1})))
	f.Add([]byte{0, 0, 0, 0, 3, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		elements, err := appendElements(nil, data)
		if err != nil && !errors.Is(err, errAttribute) {
			t.Fatal(err)
		}
		if len(elements) > len(data)/unix.NLA_HDRLEN {
			t.Errorf("%d elements in %d bytes", len(elements), len(data))
		}
	})
}

func TestAttributesThatDoNotFit(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"shorter than its head": {8, 0, 1},
		"length below its head": {3, 0, 1, 0},
		"longer than there is":  {9, 0, 1, 0, 0, 0, 0, 0},
	} {
		if err := eachAttribute(data, func(uint16, []byte) error { return nil }); !errors.Is(err, errAttribute) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The last one need not be filled up.
	var got []byte
	err := eachAttribute([]byte{5, 0, 1, 0, 7, 0, 0, 0, 5, 0, 2, 0x80, 9}, func(kind uint16, value []byte) error {
		got = append(got, byte(kind), value[0])
		return nil
	})
	if err != nil || !bytes.Equal(got, []byte{1, 7, 2, 9}) {
		t.Errorf("read %v, %v", got, err)
	}
}
