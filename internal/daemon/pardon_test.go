package daemon

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/state"
)

// With as many pardons as there may be, another one makes room by the one that
// is forgotten soonest, and holds.
func TestPardonsAreCapped(t *testing.T) {
	now := time.Now()
	var l state.Loaded
	for i := range detector.MaxPardons {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 10<<24|uint32(i))
		p := state.Pardon{Target: netip.PrefixFrom(netip.AddrFrom4(a), 32), Before: now, Keep: now.Add(time.Hour + time.Duration(i)*time.Second)}
		l.Pardons = append(l.Pardons, p)
	}
	r := newRig(t, start{config: web, actions: []string{"firewall"}, loaded: l})
	r.now = now
	r.requests("192.0.2.1", "192.0.2.1")
	r.took()
	_, err := r.unban(release{target: pfx("192.0.2.1/32"), forgive: 24 * time.Hour}, r.now)
	check(t, err)
	u := r.one()
	if len(u.Pardons) != 1 || len(u.ForgetPardons) != 1 || u.ForgetPardons[0] != l.Pardons[0].Key() {
		t.Errorf("stored %+v, forgotten %+v", u.Pardons, u.ForgetPardons)
	}
	if n := len(r.pardons.keys); n != detector.MaxPardons {
		t.Errorf("there are %d pardons", n)
	}
	r.requests("192.0.2.1", "192.0.2.1", "10.0.0.0", "10.0.0.0", "10.0.0.1", "10.0.0.1")
	if u := r.one(); targets(u) != "10.0.0.0/32" {
		t.Errorf("banned: %q, want only who is not forgiven any more", targets(u))
	}
}
