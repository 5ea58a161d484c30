//go:build linux

package actions

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
)

// Defaults of NftablesOptions.
const (
	DefaultTable = "tailban"
	DefaultSize  = 131072
)

// DefaultPorts returns the ports that a ban covers unless told otherwise:
// those of a web server, tcp and udp (for HTTP/3).
func DefaultPorts() []uint16 { return []uint16{80, 443} }

// NftablesOptions say which table to keep and how. The zero value is usable.
type NftablesOptions struct {
	Table    string   // of family inet; "": DefaultTable
	Ports    []uint16 // destination ports that a ban covers, tcp and udp; none: DefaultPorts
	AllPorts bool     // a ban covers every packet, whatever its protocol; Ports is ignored

	// Reject has what is banned answered instead of dropped in silence: a TCP
	// segment by a reset, anything else by an ICMP or ICMPv6 "port
	// unreachable". It needs Linux 5.9 or newer.
	Reject bool

	// Protect keeps other programs from changing the table, also from flushing
	// it with the whole ruleset, from Prepare to Close. It needs Linux 6.9 or
	// newer; without, it is said once and the table is not protected.
	Protect bool

	// Allow is let pass before any ban is looked at. It only leaves our own
	// chain: other chains still decide.
	Allow []netip.Prefix

	// OursOnly has Teardown leave a table alone that is not as we make it: whoever
	// has named it may have meant another one. See [ErrNotOurs].
	OursOnly bool

	Protected Protected    // nil: nothing is
	Size      int          // of each set of bans that are no networks, at most; 0: DefaultSize
	NetNS     int          // descriptor of the network namespace to work in; 0: our own
	Log       *slog.Logger // nil: none
}

// withDefaults fills in what is not said.
func (opt NftablesOptions) withDefaults() NftablesOptions {
	if opt.Table == "" {
		opt.Table = DefaultTable
	}
	filterDefaults(&opt.Ports, &opt.Size, &opt.Log)
	return opt
}

// NftablesStats are counts since NewNftables.
type NftablesStats struct {
	Protected   uint64 // additions refused as protected
	Unsupported uint64 // additions refused for their prefix length
	Overlapping uint64 // additions of networks refused because they overlap others
	Repairs     uint64 // times that a later Prepare found the ruleset changed, damaged or gone
}

// Nftables has the kernel drop or reject packets of banned clients, by a table of its
// own in nf_tables, spoken to over netlink.
//
// Bans are elements with a timeout: the kernel ends each at its time, with or
// without us. Targets are IPv4 from /8 to /32 and IPv6 from /16 to /128; see
// [RejectedError] for others. Networks (all but an IPv4 /32, an IPv6 /64 and
// an IPv6 /128) must not overlap one another: one that does is rejected with
// [ErrOverlaps]. There is room for 1024 of each family.
type Nftables struct {
	opt NftablesOptions
	log *slog.Logger

	mu     sync.Mutex // SetAllow may come from elsewhere; held while the kernel is asked
	allow  []netip.Prefix
	conn   *nftables.Conn // nil: not connected
	socket *netlink.Conn  // of conn
	low    lowFiles
	made   bool // the table has been as it should be
	probed bool // renew is known
	renew  bool // the kernel changes the timeout of an element that is added again

	flags nftables.TableFlags // that our table has while we own it; none: it isn't protected

	statsMu sync.Mutex // of stats: who asks for them waits for nothing
	stats   NftablesStats

	watchMu  sync.Mutex // of watching
	watching watching

	watchBuffer int // bytes of the socket that listens

	installed [][]expr.Any // our rules, as the kernel showed them when we had made them
}

var _ Action = (*Nftables)(nil)

// NewNftables returns the action. It does not speak to the kernel yet; it
// only holds a few low file descriptors open for that, until Close.
func NewNftables(opt NftablesOptions) *Nftables {
	opt = opt.withDefaults()
	n := &Nftables{
		opt:   opt,
		log:   opt.Log.With(slog.String("table", "inet "+opt.Table)),
		allow: slices.Clone(opt.Allow),

		watchBuffer: watchBuffer,
	}
	if opt.Protect {
		n.flags = protectedTable
	}
	n.low.fill()
	return n
}

// Prepare implements [Action].
func (n *Nftables) Prepare(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return n.checked(n.prepareProtected())
}

func (n *Nftables) prepareOnce() error {
	if err := n.connect(); err != nil {
		return err
	}
	want, err := newRuleset(n.opt, n.allow)
	if err != nil {
		return err
	}
	want.table.Flags, want.installed = n.flags, n.installed
	have, err := inspect(n.conn, want)
	if err != nil {
		return n.explainPrepare("read", err)
	}
	if err := n.checkOwner(have.table); err != nil {
		return err
	}
	if fix := want.compare(have); !fix.nothing() {
		if err := n.bringAbout(want, fix); err != nil {
			return err
		}
	}
	n.made = true
	return n.probe(have)
}

// bringAbout makes the table what it should be.
func (n *Nftables) bringAbout(want *ruleset, fix repair) error {
	if err := want.install(n.conn, fix); err != nil {
		return err
	}
	if err := n.conn.Flush(); err != nil {
		return n.explainInstall(err)
	}
	if len(fix.found) == 0 {
		return nil // the table is ours again, and as we had left it
	}
	made := &held{}
	if err := made.inspectChain(n.conn, want); err != nil {
		return n.explainPrepare("read", err)
	}
	n.installed = made.exprs
	n.report(fix)
	return nil
}

// report says what was done. What the first Prepare finds may be left from
// another configuration or version, and is no repair.
func (n *Nftables) report(fix repair) {
	if !n.made {
		n.log.Info("nftables table set up", slog.Any("found", fix.found))
		return
	}
	n.count(func(s *NftablesStats) { s.Repairs++ })
	n.log.Warn("nftables ruleset was changed by somebody else, repaired", slog.Any("found", fix.found))
}

// SetAllow changes what is let pass whatever is banned, now or, if the table
// is not there, with the next Prepare. A network that is none is an error and
// changes nothing. It may be called from any goroutine.
func (n *Nftables) SetAllow(ctx context.Context, allow []netip.Prefix) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := allowElements(allow); err != nil {
		return err
	}
	n.allow = slices.Clone(allow)
	if n.conn == nil {
		return nil
	}
	return n.checked(n.replaceAllow())
}

func (n *Nftables) replaceAllow() error {
	want, err := newRuleset(n.opt, n.allow)
	if err != nil {
		return err
	}
	if err := want.install(n.conn, repair{allow: true}); err != nil {
		return err
	}
	return n.explain("replace what is allowed in", n.conn.Flush())
}

// Stats returns the counts. It may be called from any goroutine, and waits for
// nothing.
func (n *Nftables) Stats() NftablesStats {
	n.statsMu.Lock()
	defer n.statsMu.Unlock()
	return n.stats
}

func (n *Nftables) count(f func(*NftablesStats)) {
	n.statsMu.Lock()
	defer n.statsMu.Unlock()
	f(&n.stats)
}

// Repairs is how often the rules were found changed by others.
func (n *Nftables) Repairs() uint64 { return n.Stats().Repairs }

// Close implements [Action].
func (n *Nftables) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.low.release()
	return n.disconnect()
}

// checked drops the connection after an error, as replies may be left in it.
// The next Prepare makes another. A context that is done leaves it as it is: it
// is looked at between two transactions only, and there may be last changes.
func (n *Nftables) checked(err error) error {
	var rejected *RejectedError
	done := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err != nil && !done && !errors.As(err, &rejected) {
		n.disconnect() // the error at hand says more than one of closing
		n.low.fill()
	}
	return err
}
