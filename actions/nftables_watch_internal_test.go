//go:build linux

package actions

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
)

// After an overflow the socket takes nothing until it has been drained. Who is
// told of the overflow is told behind that, and of what happens from then on.
func TestWatchHearsBehindAnOverflow(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	n := nftablesIn(t, ns, NftablesOptions{})
	n.watchBuffer = 256 << 10
	if err := n.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready, told, goOn, done := make(chan struct{}), make(chan Change), make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		_ = n.Watch(ctx, func() { close(ready) }, func(c Change) {
			select {
			case told <- c:
			case <-ctx.Done():
				return
			}
			select {
			case <-goOn:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { cancel(); <-done }()
	hear := func(what string) {
		t.Helper()
		select {
		case c := <-told:
			if !c.All {
				t.Fatalf("%s: told of %+v, want all", what, c)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: nobody was told", what)
		}
	}
	<-ready

	other, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(ns.FD()),
		nftables.WithSockOptions(func(c *netlink.Conn) error { return c.SetWriteBuffer(4 << 20) }))
	if err != nil {
		t.Fatal(err)
	}
	defer other.CloseLasting()
	flush := func() {
		t.Helper()
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	set := &nftables.Set{Table: other.AddTable(&nftables.Table{Name: "other", Family: nftables.TableFamilyINet}), Name: "s", KeyType: nftables.TypeIPAddr}
	if err := other.AddSet(set, nil); err != nil {
		t.Fatal(err)
	}
	flush()
	other.AddChain(&nftables.Chain{Name: "x", Table: tableOf(n.opt)})
	flush()
	hear("a chain")
	for i := range 20 { // while nobody reads
		var elements []nftables.SetElement
		for j := range 3000 {
			elements = append(elements, nftables.SetElement{Key: binary.BigEndian.AppendUint32(nil, uint32(10<<24+i*3000+j))})
		}
		if err := other.SetAddElements(set, elements); err != nil {
			t.Fatal(err)
		}
		flush()
	}
	goOn <- struct{}{}
	hear("the overflow")
	// Who compares everything now, and is done before this, is to be told again.
	other.DelTable(tableOf(n.opt))
	flush()
	goOn <- struct{}{}
	hear("the table deleted behind the overflow")
}
