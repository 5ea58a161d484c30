//go:build linux

package actions

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func TestTimeoutOf(t *testing.T) {
	for left, want := range map[time.Duration]uint32{
		1: 1, time.Millisecond: 1, time.Second: 1, time.Second + 1: 2, time.Hour: 3600,
		longestTimeout * time.Second: longestTimeout, longestTimeout*time.Second + 1: longestTimeout, 1<<63 - 1: longestTimeout,
	} {
		if got := timeoutOf(left); got != want {
			t.Errorf("%v left make a timeout of %d s, want %d", left, got, want)
		}
	}
}

// The largest message that can be built must fit into what an attribute can
// tell of its length.
func TestLargestMessage(t *testing.T) {
	members := make([]member, ipsetBatch)
	for i := range members {
		members[i] = member{target: netip.MustParsePrefix("2001:db8::/48"), timeout: 1, counted: true}
	}
	set := ipset{name: "0123456789012345678901234567890", kind: hashNet, family: unix.NFPROTO_IPV6, bans: true}
	if n := len(set.change(members, true)); n > 1<<16-1 {
		t.Errorf("%d members make %d bytes", len(members), n)
	}
}

// What the kernel does not send must not be taken for a set, nor end us.
func TestReadMalformed(t *testing.T) {
	set := ipset{name: "x", kind: hashIP, family: unix.NFPROTO_IPV4, bans: true}
	good := set.change([]member{{target: netip.MustParsePrefix("192.0.2.1/32"), timeout: 9, counted: true, packets: 7}}, true)
	got, err := set.readMembers(nil, good)
	want := member{target: netip.MustParsePrefix("192.0.2.1/32"), timeout: 9, packets: 7}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Fatalf("what was written is read as %+v, %v", got, err)
	}
	header := (&ipset{name: "x", kind: hashNet, family: unix.NFPROTO_IPV6, size: 9, bans: true}).create()
	if s, err := readHeader(header); err != nil || s.name != "x" || s.kind != hashNet || s.size != 9 || !s.bans {
		t.Fatalf("what was written is read as %+v, %v", s, err)
	}
	for _, message := range [][]byte{good, header} {
		for i := range message {
			for _, b := range []byte{0, 1, 0xff, message[i] + 1} {
				damaged := append([]byte(nil), message...)
				damaged[i] = b
				_, _ = set.readMembers(nil, damaged)
				_, _ = readHeader(damaged)
				_ = answered(damaged)
				_, _ = set.readMembers(nil, message[:i])
				_, _ = readHeader(message[:i])
			}
		}
	}
	short := appendAttr([]byte{0, 0, 0, 0}, nl.IPSET_ATTR_FAMILY, 1, 2)
	if _, err := readHeader(short); !errors.Is(err, errAttribute) {
		t.Errorf("a number of another size: %v", err)
	}
}

func TestAnswered(t *testing.T) {
	number := func(n int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(-n)) }
	for _, tt := range []struct {
		data []byte
		want error
	}{
		{nil, nil},
		{number(0), nil},
		{number(int32(unix.ENOENT)), unix.ENOENT},
		{number(nl.IPSET_ERR_BUSY), errSetBusy},
		{append(number(nl.IPSET_ERR_TYPE_SPECIFIC), 1, 2, 3), errSetFull},
	} {
		if got := answered(tt.data); !errors.Is(got, tt.want) || got != nil && tt.want == nil {
			t.Errorf("%x is read as %v, want %v", tt.data, got, tt.want)
		}
	}
	for number, want := range map[ipsetErrno]string{
		errSetFull: "hash is full", errSetNull: "the address of only zeros cannot be stored", errSetBusy: "ipset: busy", 4999: "ipset: errno 4999",
	} {
		if number.Error() != want {
			t.Errorf("%d says %q", number, number.Error())
		}
	}
}

// An error names the member, those before it are done and those behind are not.
func TestMemberThatIsRefused(t *testing.T) {
	ns := namespace(t)
	sets, err := openIPSets(ns.FD())
	if err != nil {
		t.Fatal(err)
	}
	defer sets.close()
	set := &ipset{name: "tailban", kind: hashIP, family: unix.NFPROTO_IPV4, size: 9, bans: true}
	if err := sets.create(set); err != nil {
		t.Fatal(err)
	}
	if err := sets.create(set); !errors.Is(err, unix.EEXIST) {
		t.Errorf("to make it twice returned %v", err)
	}
	var members []member
	for _, a := range []string{"192.0.2.1/32", "0.0.0.0/32", "192.0.2.2/32"} {
		members = append(members, member{target: netip.MustParsePrefix(a), timeout: 60})
	}
	err = sets.add(t.Context(), set, members)
	var at *memberError
	if !errors.As(err, &at) || at.index != 1 || !errors.Is(err, errSetNull) || err.Error() != "member 1: the address of only zeros cannot be stored" {
		t.Errorf("add returned %v", err)
	}
	for i, want := range []bool{true, false, false} {
		if got, _ := sets.has(set, members[i]); got != want {
			t.Errorf("%s is in: %t, want %t", members[i].target, got, want)
		}
	}
}
