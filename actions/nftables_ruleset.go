//go:build linux

package actions

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Names of our chain and sets. Userland up to nft 0.9 breaks on names of
// sets longer than 15 characters.
const (
	chainName  = "prerouting"
	setBan4    = "ban4"   // IPv4 addresses
	setBan6    = "ban6"   // IPv6 /64 networks, by their first address
	setHost6   = "host6"  // IPv6 addresses
	setNet4    = "net4"   // IPv4 networks
	setNet6    = "net6"   // IPv6 networks other than a /64
	setAllow4  = "allow4" // IPv4 ranges
	setAllow6  = "allow6" // IPv6 ranges
	definition = 1        // of the sets, told by their comments; raise it when one changes, not when one is added
)

// priority is behind raw's own, before connection tracking (-200) and before
// destinations are translated (-100), so that established connections and
// what is forwarded to containers stop as well.
const priority nftables.ChainPriority = -300 + 5

// ruleset is what our table should be.
type ruleset struct {
	table  *nftables.Table
	chain  *nftables.Chain
	bans   []*nftables.Set
	allow4 *nftables.Set
	allow6 *nftables.Set
	rules  []rule

	// installed is what the kernel showed of our rules when we had made them;
	// none: we have not made them yet.
	installed [][]expr.Any

	allowed map[string][]nftables.SetElement // by set
}

// rule is one rule without what only exists inside a transaction.
type rule struct {
	comment string
	match   []match
	exprs   []expr.Any // what follows the matches
}

// match compares what an expression loads into register 1 with one value, or
// with a fixed list that is kept in an anonymous set.
type match struct {
	load     expr.Any
	datatype nftables.SetDatatype
	values   [][]byte
}

func newRuleset(opt NftablesOptions, allow []netip.Prefix) (*ruleset, error) {
	t := tableOf(opt)
	policy, prio := nftables.ChainPolicyAccept, priority
	r := &ruleset{
		table: t,
		chain: &nftables.Chain{
			Table: t, Name: chainName,
			Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting,
			Priority: &prio, Policy: &policy,
		},
		bans:   banSets(opt),
		allow4: allowSet(t, setAllow4, "IPv4 addresses let pass", nftables.TypeIPAddr),
		allow6: allowSet(t, setAllow6, "IPv6 addresses let pass", nftables.TypeIP6Addr),
	}
	var err error
	if r.allowed, err = allowElements(allow); err != nil {
		return nil, err
	}
	r.rules = rulesFor(opt)
	return r, nil
}

func tableOf(opt NftablesOptions) *nftables.Table {
	return &nftables.Table{Name: opt.Table, Family: nftables.TableFamilyINet}
}

func banSets(opt NftablesOptions) []*nftables.Set {
	t := tableOf(opt)
	return []*nftables.Set{
		banSet(t, setBan4, "banned IPv4 addresses", nftables.TypeIPAddr, opt.Size),
		banSet(t, setBan6, "banned IPv6 /64 networks", nftables.TypeIP6Addr, opt.Size),
		banSet(t, setHost6, "banned IPv6 addresses", nftables.TypeIP6Addr, opt.Size),
		netSet(t, setNet4, "banned IPv4 networks", nftables.TypeIPAddr),
		netSet(t, setNet6, "banned IPv6 networks", nftables.TypeIP6Addr),
	}
}

func banSet(t *nftables.Table, name, comment string, key nftables.SetDatatype, size int) *nftables.Set {
	return &nftables.Set{
		Table: t, Name: name, KeyType: key,
		HasTimeout: true, Counter: true, Size: uint32(size),
		Comment: setComment(comment),
	}
}

// netSet is banSet for networks of any length. Some kernels count the end of
// each as well.
func netSet(t *nftables.Table, name, comment string, key nftables.SetDatatype) *nftables.Set {
	s := banSet(t, name, comment, key, 2*netSize)
	s.Interval, s.KeyByteOrder = true, binaryutil.BigEndian
	return s
}

func allowSet(t *nftables.Table, name, comment string, key nftables.SetDatatype) *nftables.Set {
	return &nftables.Set{
		Table: t, Name: name, KeyType: key,
		Interval: true, KeyByteOrder: binaryutil.BigEndian,
		Comment: setComment(comment),
	}
}

// setComment tells what a set is for, and its definition as far as the kernel
// does not report it.
func setComment(text string) string { return fmt.Sprintf("%s (tailban %d)", text, definition) }

func (r *ruleset) sets() []*nftables.Set { return append(slices.Clone(r.bans), r.allow4, r.allow6) }

// rulesFor lists the rules in order. What is allowed leaves first; ports are
// compared before a set of bans is looked at, as a look counts the packet in
// the element's counter.
func rulesFor(opt NftablesOptions) []rule {
	v4 := family(unix.NFPROTO_IPV4, source4())
	v6 := family(unix.NFPROTO_IPV6, source6())
	rules := []rule{
		{comment: "let pass " + setAllow4, exprs: lookup(v4, setAllow4, accept())},
		{comment: "let pass " + setAllow6, exprs: lookup(v6, setAllow6, accept())},
	}
	for _, ban := range []struct {
		set  string
		load []expr.Any
	}{
		{setBan4, v4},
		{setBan6, append(slices.Clone(v6), mask64())},
		{setHost6, v6},
		{setNet4, v4},
		{setNet6, v6},
	} {
		for _, v := range verdictsFor(opt) {
			rules = append(rules, rule{
				comment: v.name + " " + ban.set,
				match:   matches(opt, v.protocols),
				exprs:   lookup(ban.load, ban.set, v.statement),
			})
		}
	}
	tag := fingerprint(rules)
	for i := range rules {
		rules[i].comment = fmt.Sprintf("%s (tailban %s)", rules[i].comment, tag)
	}
	return rules
}

// verdict is what happens to what is banned.
type verdict struct {
	name      string
	protocols [][]byte // it is for; nil: for all
	statement expr.Any
}

// verdictsFor lists them in the order in which they are tried: a reset is an
// answer to TCP alone, and ends the rules for it. Both statements that reject
// drop the packet, whether an answer can be sent or not.
//
// The answer to anything else is "port unreachable", as of a host where nobody
// listens and as nft's own "reject": unlike "administratively prohibited" it
// means the same to a socket in both families, and the same as the reset does
// (ECONNREFUSED), and it doesn't tell of a filter.
func verdictsFor(opt NftablesOptions) []verdict {
	tcp, udp := []byte{unix.IPPROTO_TCP}, []byte{unix.IPPROTO_UDP}
	others := [][]byte{udp}
	if opt.AllPorts {
		others = nil
	}
	switch {
	case opt.Reject:
		return []verdict{
			{"reset", [][]byte{tcp}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}},
			{"reject", others, &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}},
		}
	case opt.AllPorts:
		return []verdict{{"drop", nil, drop()}}
	}
	return []verdict{{"drop", [][]byte{tcp, udp}, drop()}}
}

// matches restricts a rule to protocols and, unless a ban covers all, ports.
func matches(opt NftablesOptions, protocols [][]byte) []match {
	var all []match
	if len(protocols) > 0 {
		all = append(all, match{
			load:     &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			datatype: nftables.TypeInetProto,
			values:   protocols,
		})
	}
	if opt.AllPorts {
		return all
	}
	ports := make([][]byte, len(opt.Ports))
	for i, p := range opt.Ports {
		ports[i] = binaryutil.BigEndian.PutUint16(p)
	}
	return append(all, match{
		// The destination port is at the same place in TCP and UDP.
		load:     &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		datatype: nftables.TypeInetService,
		values:   ports,
	})
}

func accept() expr.Any { return &expr.Verdict{Kind: expr.VerdictAccept} }
func drop() expr.Any   { return &expr.Verdict{Kind: expr.VerdictDrop} }

func family(proto byte, source expr.Any) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
		source,
	}
}

// source4 loads the source address of an IPv4 header (RFC 791, 3.1).
func source4() expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
}

// source6 loads the source address of an IPv6 header (RFC 8200, 3).
func source6() expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
}

// mask64 leaves the first 64 bits of an IPv6 address.
func mask64() expr.Any {
	mask := make([]byte, 16)
	for i := range 8 {
		mask[i] = 0xff
	}
	return &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 16, Mask: mask, Xor: make([]byte, 16)}
}

func lookup(load []expr.Any, set string, statement expr.Any) []expr.Any {
	return append(slices.Clone(load), &expr.Lookup{SourceRegister: 1, SetName: set}, statement)
}

// fingerprint tells one set of rules from another. It goes into the comment
// of every rule, so that rules of another version or configuration are seen.
func fingerprint(rules []rule) string {
	h := sha256.New()
	for _, r := range rules {
		fmt.Fprintf(h, "rule %s\n", r.comment)
		for _, m := range r.match {
			fmt.Fprintf(h, "match %T%+v in %s %x\n", m.load, m.load, m.datatype.Name, m.values)
		}
		for _, e := range r.exprs {
			fmt.Fprintf(h, "%T%+v\n", e, e)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// userData is the comment as nft writes and shows it.
func (r *rule) userData() []byte {
	return userdata.AppendString(nil, userdata.TypeComment, r.comment)
}
