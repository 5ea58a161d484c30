//go:build linux

package actions

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of IptablesOptions. DefaultSize is that of Nftables, too.
const (
	DefaultChain  = "TAILBAN"
	DefaultPrefix = "tailban"
)

// Variants of iptables.
const (
	VariantNft    = "nft"    // iptables-nft: its rules are in nf_tables
	VariantLegacy = "legacy" // iptables-legacy: its rules are in x_tables
)

// IptablesOptions say which chain and sets to keep and how. The zero value is
// usable.
type IptablesOptions struct {
	Chain    string   // in the table filter of both families, with one beside it named Chain + "-BAN"; at most 24 characters; "": DefaultChain
	Prefix   string   // of the names of sets, at most 24 characters; "": DefaultPrefix
	Siblings []string // chains of other actions of ours, whose jumps may come before ours
	Ports    []uint16 // destination ports that a ban covers, tcp and udp; none: DefaultPorts
	AllPorts bool     // a ban covers every packet, whatever its protocol; Ports is ignored

	// Reject has what is banned answered instead of dropped in silence: a TCP
	// segment by a reset, anything else by an ICMP or ICMPv6 "port
	// unreachable".
	Reject bool

	// Allow is let pass before any ban is looked at. It only leaves our own
	// chain: the rules behind it still decide.
	Allow []netip.Prefix

	// Variant is which iptables to use, VariantNft or VariantLegacy; "": what
	// the program "iptables" is. Path is that program; ip6tables is expected
	// beside it. "": looked for in PATH, /usr/sbin and /sbin.
	Variant string
	Path    string

	// Contested says that somebody else fought for the first place before: that
	// goes on until a while is calm.
	Contested bool

	// OursOnly has a teardown leave alone what is not as we make it: whoever has
	// named it may have meant something else. See [ErrNotOurs].
	OursOnly bool

	Runs      *IptablesRuns // shared by all actions of a process; nil: its own
	Protected Protected     // nil: nothing is
	Size      int           // of each set of bans, at most; 0: DefaultSize
	NetNS     int           // descriptor of the network namespace to work in; 0: our own
	Log       *slog.Logger  // nil: none
}

// withDefaults fills in what is not said.
func (opt IptablesOptions) withDefaults() IptablesOptions {
	if opt.Chain == "" {
		opt.Chain = DefaultChain
	}
	if opt.Prefix == "" {
		opt.Prefix = DefaultPrefix
	}
	if opt.Runs == nil {
		opt.Runs = &IptablesRuns{}
	}
	filterDefaults(&opt.Ports, &opt.Size, &opt.Log)
	return opt
}

// Iptables has the kernel drop or reject packets of banned clients, by sets of
// IP addresses (ipset) and a few iptables rules that look into them.
//
// Bans are members with a timeout: the kernel ends each at its time, with or
// without us. A timeout ends in whole seconds and is 2,147,483 of them (24.8
// days) at most; see [Limited]. Targets are IPv4 from /8 to /32 and IPv6 from
// /16 to /128; see [RejectedError] for others. Networks may overlap.
//
// A ban that is renewed keeps its count of packets; so does one that comes
// again before the kernel has swept away the one that has ended.
//
// # Rules
//
// The rules are in a chain of ours in the table filter, of IPv4 and IPv6, that
// packets reach first of all: from INPUT, from FORWARD, and from DOCKER-USER if
// that is there. INPUT is for what is sent to the host, and being first there
// is what cuts connections that an administrator's rule for established ones
// would let pass. What goes to containers passes FORWARD. Docker puts its own
// rules at the top of FORWARD each time that it starts, but a jump to
// DOCKER-USER always above them; so with Docker, the jump from DOCKER-USER is
// the one that holds at any time, and ours in FORWARD may follow directly behind
// Docker's to DOCKER-USER. Without Docker, FORWARD alone is enough.
//
// Ports are compared as they are and, where the kernel tracks connections, as
// they were before any translation: what is sent to port 80 is banned there,
// whichever port of a container it is for.
//
// Programs that save rules for the next boot, as netfilter-persistent does, save
// ours, too; to restore them fails as long as there are no sets, and then none is
// restored. Whoever uses such a program saves the sets as well, or leaves our
// rules out.
//
// Nobody can listen to what others do to IP sets, nor to x_tables: the kernel
// does not tell. Iptables is no [Watcher], and what others change is found when
// Prepare and List are called the next time. Who puts rules above ours again and
// again is backed off from; see [Contester].
type Iptables struct {
	opt IptablesOptions
	log *slog.Logger

	mu    sync.Mutex // SetAllow may come from elsewhere
	allow []netip.Prefix
	sets  *ipsets       // nil: not connected
	tools []*iptablesOf // one of each family; none: not looked for
	made  bool          // rules and sets have been as they should be
	other bool          // that of the other variant has been looked for

	hasIPv6  func() bool   // of the kernel
	patience time.Duration // with a run of a program

	order order // of rules, that somebody else may change

	repairs   atomic.Uint64 // whoever asks for these waits for nothing
	contested atomic.Bool

	tracked bool                // the kernel tracks connections
	shown   map[string][]string // rules of our chains as they were listed when we had made them
}

var (
	_ Action  = (*Iptables)(nil)
	_ Holder  = (*Iptables)(nil)
	_ Bounded = (*Iptables)(nil)
	_ Limited = (*Iptables)(nil)

	_ Contester = (*Iptables)(nil)
)

// NewIptables returns the action. It does not look at anything yet.
func NewIptables(opt IptablesOptions) *Iptables {
	opt = opt.withDefaults()
	t := &Iptables{
		opt:   opt,
		log:   opt.Log.With(slog.String("chain", opt.Chain)),
		allow: slices.Clone(opt.Allow),
		shown: map[string][]string{},

		hasIPv6:  kernelHasIPv6,
		patience: runPatience,
	}
	if opt.Contested {
		t.order = order{repairs: orderRepairs - 1, pause: 1}
		t.contested.Store(true)
	}
	return t
}

// Prepare implements [Action].
func (t *Iptables) Prepare(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.checked(t.prepare(ctx))
}

func (t *Iptables) prepare(ctx context.Context) error {
	if err := errors.Join(ctx.Err(), t.opt.check()); err != nil {
		return err
	}
	toolsErr := t.findTools(ctx)
	if toolsErr != nil && !t.made {
		return toolsErr
	}
	if err := t.connect(); err != nil {
		return err
	}
	if !t.made { // before anything is, as nothing would be of use without
		if err := inNetNS(t.opt.NetNS, func() error { return t.tools[0].mayLookUp(ctx, t.opt) }); err != nil {
			return err
		}
	}
	fix := &mending{}
	if err := t.prepareSets(ctx, fix); err != nil {
		return err
	}
	if toolsErr == nil {
		toolsErr = t.prepareRules(ctx, fix)
	}
	switch {
	case toolsErr != nil && t.made && ctx.Err() == nil:
		return holdsBans{toolsErr} // a program that hangs keeps no ban out of the sets
	case toolsErr != nil:
		return toolsErr
	}
	t.report(fix)
	t.made = true
	t.warnOfOther(ctx)
	return nil
}

// mending is what Prepare has found and repaired.
type mending struct {
	found []string // for people
	ours  []string // what we wanted otherwise than before
}

// report says what was done. What the first Prepare finds may be left from
// another configuration or version, and is no repair.
func (t *Iptables) report(fix *mending) {
	if len(fix.ours) > 0 {
		t.log.Info("iptables rules changed", slog.Any("because", fix.ours))
	}
	switch {
	case len(fix.found) == 0:
	case !t.made:
		t.log.Info("iptables rules and sets set up", slog.String("variant", t.tools[0].variant), slog.Any("found", fix.found))
	default:
		t.repairs.Add(1)
		t.log.Warn("iptables rules or sets were changed by somebody else, repaired", slog.Any("found", fix.found))
	}
}

func (t *Iptables) connect() error {
	if t.sets != nil {
		return nil
	}
	sets, err := openIPSets(t.opt.NetNS)
	t.sets = sets
	return explainIPSets(err)
}

func (t *Iptables) disconnect() error {
	if t.sets == nil {
		return nil
	}
	sets := t.sets
	t.sets = nil
	return sets.close()
}

// SetAllow changes what is let pass whatever is banned, now or, if the sets are
// not there, with the next Prepare. A network that is none is an error and
// changes nothing. It may be called from any goroutine.
func (t *Iptables) SetAllow(ctx context.Context, allow []netip.Prefix) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, _, err := families(allow); err != nil {
		return err
	}
	t.allow = slices.Clone(allow)
	if t.sets == nil {
		return nil
	}
	_, err := t.prepareAllow(ctx)
	return t.checked(err)
}

// Repairs is how often a later Prepare has found rules or sets changed, damaged or
// gone. It may be called from any goroutine, and waits for nothing.
func (t *Iptables) Repairs() uint64 { return t.repairs.Load() }

// Close implements [Action].
func (t *Iptables) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.disconnect()
}

// checked drops the connection after an error, as replies may be left in it,
// and what is known of the programs. The next Prepare begins anew. Whoever gives
// up does so between two messages.
func (t *Iptables) checked(err error) error {
	var rejected *RejectedError
	gaveUp := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if errors.Is(err, ErrHoldsBans) {
		t.tools = nil
		return err
	}
	if err != nil && !gaveUp && !errors.As(err, &rejected) {
		_ = t.disconnect() // the error at hand says more than one of closing
		t.tools = nil
	}
	return err
}
