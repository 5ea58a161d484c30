//go:build linux

package actions

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/google/nftables"
)

// setProbe is the scratch set of a probe. No rule looks into it, and nothing
// that finds it in our table takes it for damage.
const setProbe = "renewal_probe"

// Times of the probe: what is added first, and what it is to become.
const (
	probeFirst  = time.Hour
	probeSecond = 2 * time.Hour
)

// probe finds out, once, whether adding an element that is there changes its
// timeout. Before Linux 6.12 that succeeds and changes nothing; others have
// the change backported. Where it can't be found out, elements are renewed in
// the way that is right for both, which only costs their counters.
func (n *Nftables) probe(have *held) error {
	if n.probed {
		return nil
	}
	n.probed = true
	var err error
	if n.renew, err = n.renews(have); err == nil {
		return nil
	}
	n.log.Info("cannot find out whether the kernel renews timeouts, taken for one that does not", slog.Any("err", err))
	n.disconnect() // replies may be left in it
	return n.prepareOnce()
}

// renews tries it. The scratch set may be there already if an earlier process
// has died with it.
func (n *Nftables) renews(have *held) (bool, error) {
	set := banSet(tableOf(n.opt), setProbe, "scratch", nftables.TypeIPAddr, 1)
	if have.sets[setProbe] != nil {
		n.conn.DelSet(set)
	}
	element := func(timeout time.Duration) []nftables.SetElement {
		return []nftables.SetElement{{Key: []byte{192, 0, 2, 1}, Timeout: timeout}}
	}
	if err := n.conn.AddSet(set, element(probeFirst)); err != nil {
		return false, err
	}
	if err := n.conn.Flush(); err != nil {
		return false, fmt.Errorf("make set %s: %w", setProbe, err)
	}
	if err := n.conn.SetAddElements(set, element(probeSecond)); err != nil {
		return false, err
	}
	if err := n.conn.Flush(); err != nil {
		return false, fmt.Errorf("add to set %s again: %w", setProbe, err)
	}
	got, err := dumpElements(n.socket, set)
	if err != nil {
		return false, fmt.Errorf("list set %s: %w", setProbe, err)
	}
	n.conn.DelSet(set)
	if err := n.conn.Flush(); err != nil {
		return false, fmt.Errorf("remove set %s: %w", setProbe, err)
	}
	return len(got) == 1 && got[0].Expires > (probeFirst+probeSecond)/2, nil
}
