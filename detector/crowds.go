package detector

import "net/netip"

// crowds count clients by the networks that they are of. What there is room for in
// all, nobody is to fill who has a network to himself: those behind him would be
// taken for ordinary clients.
type crowds map[netip.Prefix]int

// crowding is how many there may be of a network of a length: a quarter of what
// there is room for, of one that a provider has.
type crowding struct{ bits, most int }

var (
	crowding4 = [...]crowding{{16, 256}}
	crowding6 = [...]crowding{{32, 256}, {48, 128}, {64, 64}}
)

func crowdingOf(a netip.Addr) []crowding {
	if a.Is4() {
		return crowding4[:]
	}
	return crowding6[:]
}

// room reports whether there may be one more.
func (c crowds) room(client netip.Addr) bool {
	for _, x := range crowdingOf(client) {
		if p, _ := client.Prefix(x.bits); c[p] >= x.most {
			return false
		}
	}
	return true
}

// add counts n more, or fewer.
func (c crowds) add(client netip.Addr, n int) {
	for _, x := range crowdingOf(client) {
		p, _ := client.Prefix(x.bits)
		if c[p] += n; c[p] == 0 {
			delete(c, p)
		}
	}
}

// network is the widest of the networks by which a client is counted.
func network(client netip.Addr) netip.Prefix {
	p, _ := client.Prefix(crowdingOf(client)[0].bits)
	return p
}
