package replay

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/tailban/tailban/detector"
)

const (
	// maxWaiting is how many clients are counted at a time: one after the other, each
	// counter would be waited for.
	maxWaiting = 64

	// chunkSize is how many are handed to a goroutine that counts, and chunks how
	// often they are before it has to have counted the first.
	chunkSize = 1024
	chunks    = 8
)

// clients counts the clients of all lines, in the order of the lines.
type clients struct {
	all     *distinct[address]
	top     *top      // by an address of each target
	waiting []address // of lines that are in neither yet

	// Of clients that are counted by a goroutine of its own:
	full chan []address // nil: they are not
	free chan []address
	done chan struct{} // closed: all are counted that full had
}

func newClients() clients {
	return clients{all: newDistinct(address.hash), top: newTop(), waiting: make([]address, 0, maxWaiting)}
}

// beside has clients counted by a call of run, where another core has time for it. It
// is called before the first is added.
func (c *clients) beside() {
	c.full, c.free, c.done = make(chan []address, chunks), make(chan []address, chunks), make(chan struct{})
	for range chunks {
		c.free <- make([]address, 0, chunkSize)
	}
	c.waiting = make([]address, 0, chunkSize)
}

// run counts until finish is called.
func (c *clients) run() {
	defer close(c.done)
	for some := range c.full {
		c.count(some)
		c.free <- some // has room for all there are
	}
}

// add counts a line's client; a proxy that speaks for itself is none.
func (c *clients) add(v *detector.Verdict) {
	if !v.Client.IsValid() || v.Step == detector.StepInfrastructure {
		return
	}
	if c.waiting = append(c.waiting, addressOf(v.Client)); len(c.waiting) == cap(c.waiting) {
		c.handOver()
	}
}

func (c *clients) handOver() {
	if c.full == nil {
		c.count(c.waiting)
	} else {
		c.full <- c.waiting
		c.waiting = <-c.free
	}
	c.waiting = c.waiting[:0]
}

// finish counts those who still wait. No more can be added then.
func (c *clients) finish() {
	if c.full != nil {
		close(c.full)
		<-c.done
	}
	c.count(c.waiting)
}

func (c *clients) count(waiting []address) {
	for some := range slices.Chunk(waiting, maxWaiting) {
		c.countSome(some)
	}
}

// countSome counts maxWaiting clients at most.
func (c *clients) countSome(some []address) {
	var targets [maxWaiting]address
	for i, client := range some {
		targets[i] = client.counted()
	}
	var hashes [maxWaiting]uint32
	c.top.near(targets[:len(some)], &hashes)
	for i, client := range some {
		x, fresh := c.top.add(targets[i], hashes[i])
		if fresh || targets[i].lo == lastOf64 && x.latest != client.lo {
			c.all.add(client) // else it is the latest of a target that has a counter, or all of it
			x.latest = client.lo
		}
	}
}

// address is an address as maps find it quickest; IPv4 in its mapped form.
type address struct{ hi, lo uint64 }

func addressOf(a netip.Addr) address {
	if a.Is4() {
		b := a.As4()
		return address{lo: mapped<<32 | uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return address{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// mapped is what IPv4 has before it in its mapped form.
const mapped = 0xffff

func (a address) is4() bool { return a.hi == 0 && a.lo>>32 == mapped }

// counted is the address that stands for the target of a client.
func (a address) counted() address {
	if a.is4() || a.hi>>56 == 0 && a.target().IsSingleIP() { // as behind NAT64
		return a
	}
	return address{a.hi, lastOf64}
}

// hash is quick, and no more than that: it is for a place to look first.
func (a address) hash() uint32 { return uint32((a.hi ^ a.lo) * 0x9e3779b97f4a7c15 >> 32) }

// lastOf64 is where a network of 64 bits ends. It stands for all of it: its
// first address can be a target by itself, as one behind NAT64 (64:ff9b::), while
// none of those is the last of a network.
const lastOf64 = ^uint64(0)

// target is the target that it stands for: no two targets have the same.
func (a address) target() netip.Prefix {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], a.hi)
	binary.BigEndian.PutUint64(b[8:], a.lo)
	return detector.TargetOf(netip.AddrFrom16(b).Unmap())
}
