// Package config turns jails.toml into typed, checked values.
//
// It is strict, and it reports everything that is wrong at once, each with
// its line: whoever got three keys wrong learns of three, not of one.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/notify"
	"github.com/tailban/tailban/parser"
)

// Config is a configuration without problems. Slices that come from tables
// are in the order of the file.
type Config struct {
	TrustedProxies []netip.Prefix // masked, unmapped; providers replaced by their ranges
	Allow          []netip.Prefix // likewise
	AllowHosts     []string       // host names that are allowed, in lower case, without the dot at the end
	Providers      []Provider     // the provider names used above
	Lists          []List         // the files of addresses used above
	Refresh        time.Duration  // how often the ranges of providers are fetched; 0: they are those built in

	Logs    []Log             // at least one
	Jails   []detector.Jail   // at least one, every field filled in
	Wanted  []detector.Wanted // machines that are let pass
	Deny    *detector.Deny    // nil: nobody is denied
	Actions []Action          // at least one, except in Builtin
	Notify  []notify.Options  // who is told what happens; their Host is empty

	StateDir   string // absolute
	RuntimeDir string // of the control sockets, absolute; "", in Builtin: there are none

	StatusGroup string // may look at the daemon; "": the group tailban, if there is one
	AdminGroup  string // may steer it; "": root only

	Metrics Metrics // where they can be scraped

	MaxMemory int64 // bytes for the windows
	MaxBans   int   // in force at a time

	BreakerShare    float64       // of the regular clients, which a jail's bans may hit; 1: all
	BreakerCoolDown time.Duration // for how long a jail only observes that hit more

	MaxBansPerMinute int // that are enforced, of those that jails decide; 0: no bound

	Observe bool // mode = "observe" for all; every jail's Observe and Deny's is then true, too

	Remember      time.Duration // how long offences count where a jail doesn't say
	SharedHistory bool          // all jails that enforce count a target's offences together; so do all others

	ProtectSessions bool // who is logged in by SSH is never banned

	sources  map[string][]string // where providers publish by the configuration, by name
	warnings Problems
	doc      *document // nil in Builtin
}

// Provider is a provider name that was used, and what it stood for.
type Provider struct {
	Key      string         // "trusted_proxies", "allow", "deny.from" or "wanted.NAME.from"
	Name     string         // "cloudflare"
	Prefixes []netip.Prefix // the ranges
	Snapshot string         // day of the ranges, as YYYY-MM-DD
	Fetched  bool           // they were fetched; if not, they are built in

	// Waiting is what they would have besides if an administrator accepted it. It is
	// as yet trusted with nothing.
	Waiting []netip.Prefix
}

// List is a file of addresses that was used.
type List struct {
	Key     string // as of a Provider
	Path    string
	Entries int    // different ones
	Date    string // of which they are, as YYYY-MM-DD: as the file says, or else of its last change; "": not known
}

// Log is where lines of one format come from: one of Files, Journal, Syslog,
// Stdin and FIFO, and none in Builtin.
type Log struct {
	Name      string
	Files     []string           // absolute paths, or patterns of filepath.Match
	Journal   []string           // systemd units, with their suffix
	Syslog    *Syslog            // a socket
	Stdin     bool               // standard input
	FIFO      string             // absolute path of a named pipe
	Format    string             // what parser.New takes, or "json"; empty, in Builtin, means: guess it
	Header    string             // the forwarding header; empty: the format's
	Zone      *time.Location     // for times without an offset; nil: none
	Rewritten bool               // the peer is one that a proxy reported (nginx realip, mod_remoteip)
	Fields    *parser.JSONFields // of format "json"
	MaxLine   int                // bytes of a line that are looked at

	FromStart     bool   // files are read from their first byte at the first start
	MaxFiles      int    // that may be open at once
	AllowInsecure bool   // files are read, too, that strangers can write to or replace
	Container     string // what lines are wrapped in: "docker", "cri" or ""

	UsersChecked      bool // the user in a line is one that the server has checked
	SkipAfterUnparsed bool // the first line that parses after one that doesn't isn't counted

	logged parser.Fields // what the format logs
	traits parser.Traits // of the format
	told   bool          // what the peer is was given
}

// Types of actions.
const (
	TypeNftables   = "nftables"
	TypeIptables   = "iptables"   // with IP sets
	TypeCommand    = "command"    // by programs of the administrator's
	TypeCloudflare = "cloudflare" // at Cloudflare's edge
	TypeLog        = "log"        // nothing is enforced, bans are only reported
)

// Variants of iptables.
const (
	VariantNft    = "nft"
	VariantLegacy = "legacy"
)

// Verdicts of an action that is a packet filter.
const (
	VerdictDrop   = "drop"
	VerdictReject = "reject"
)

// Action is a place where bans are enforced. Fields below Type are zero unless
// they are of that type.
type Action struct {
	Name string
	Type string // one of the above

	// Reconcile is how often what is held is compared with what should be; of all
	// types but TypeLog.
	Reconcile time.Duration

	// Of all packet filters.

	Ports    []uint16
	AllPorts bool // every protocol and port; Ports is then empty
	Reject   bool // what is banned is answered instead of dropped in silence

	// CutConnections has the connections cut that are open from who is banned.
	CutConnections bool

	// Of TypeIptables.

	Chain   string // name of the chain
	Sets    string // what the names of the sets begin with
	Variant string // VariantNft or VariantLegacy; "": what the program "iptables" is

	Siblings []string // chains of other actions of TypeIptables

	// Command is of TypeCommand.
	Command *Command

	// Cloudflare is of TypeCloudflare.
	Cloudflare *Cloudflare

	// Of TypeNftables.

	Table   string // name of the table, in the inet family
	Protect bool   // nobody else may change the table

	// Merge is of how many members at least a network is banned as one; 0: none is.
	Merge int
}

// Kernel reports whether the kernel enforces its bans.
func (a *Action) Kernel() bool { return a.Type == TypeNftables || a.Type == TypeIptables }

// Edge reports whether its bans are enforced where clients that come through a proxy
// are seen as they are.
func (a *Action) Edge() bool { return a.Type == TypeCloudflare }

// Place names what the action has for itself, and no other may work on; "":
// nothing.
func (a *Action) Place() string {
	switch a.Type {
	case TypeNftables:
		return "table inet " + a.Table
	case TypeIptables:
		return "chain " + a.Chain + " with sets " + a.Sets
	case TypeCommand:
		return fmt.Sprintf("what %q puts in for action %s", a.Command.Ban, a.Name)
	case TypeCloudflare:
		return a.Cloudflare.place()
	}
	return ""
}

// What is used where the file says nothing.
const (
	DefaultStateDir         = "/var/lib/tailban"
	DefaultRuntimeDir       = "/run/tailban"
	DefaultMaxMemory        = 64 << 20
	DefaultMaxBans          = 100_000
	DefaultMaxBansPerMinute = 10_000
	DefaultMaxLine          = 256 << 10
	DefaultMaxFiles         = 4096
	DefaultFormat           = "combined"
	DefaultTable            = "tailban"
	DefaultChain            = "TAILBAN"
	DefaultSets             = "tailban"
	DefaultReconcile        = 30 * time.Second
	DefaultTimeout          = 10 * time.Second
	DefaultConcurrency      = 4
	DefaultRemember         = detector.DefaultRemember
	DefaultList             = "tailban" // at Cloudflare
	DefaultSyncEvery        = 15 * time.Second
	DefaultCapacity         = 10_000
	DefaultLease            = time.Hour
	DefaultRequests         = 400
	DefaultChanges          = 200_000
	DefaultEdgeReconcile    = 10 * time.Minute
)

// maxFile is how large the file may be, in bytes.
const maxFile = 1 << 20

// Load reads and checks a configuration file. env is the environment in the
// form of os.Environ. If the file could be read but not accepted the error is
// of type Problems.
func Load(path string, env []string) (*Config, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, env)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read configuration (jails.toml.example is one to start from): %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return data, nil
}

// Parse checks a configuration that has been read, with the files of addresses
// that it names. name is what problems call the file. If it isn't accepted the error is of type Problems.
func Parse(name string, data []byte, env []string) (*Config, error) {
	return parse(name, data, env, nil)
}

// parse is Parse with texts to take in place of some files of addresses, by
// their paths.
func parse(name string, data []byte, env []string, kept map[string]string) (*Config, error) {
	doc, table := decode(name, data)
	doc.kept, doc.env = kept, env
	if len(doc.problems) > 0 {
		return nil, doc.problems.sorted(name)
	}
	c := read(&section{doc: doc, table: table}, env)
	if len(doc.problems) > 0 {
		return nil, doc.problems.sorted(name)
	}
	warn(doc, c)
	c.warnings = doc.warnings.sorted(name)
	c.doc = doc
	return c, nil
}

// Builtin returns what a replay uses without a configuration: one jail, more
// than 50 requests in 60 seconds, an hour's ban, no actions, and a log whose
// files and format the caller fills in.
func Builtin() *Config {
	return &Config{
		Logs: []Log{{Name: "log", MaxLine: DefaultMaxLine, MaxFiles: DefaultMaxFiles}},
		Jails: []detector.Jail{{
			Name:     "web",
			Logs:     []string{"log"},
			Limit:    50,
			Window:   time.Minute,
			Ban:      []time.Duration{time.Hour},
			Remember: DefaultRemember,
		}},
		StateDir:  DefaultStateDir,
		MaxMemory: DefaultMaxMemory,
		MaxBans:   DefaultMaxBans,

		MaxBansPerMinute: DefaultMaxBansPerMinute,
		BreakerShare:     DefaultBreakerShare,
		BreakerCoolDown:  DefaultBreakerCoolDown,
		Remember:         DefaultRemember,

		ProtectSessions: true,
	}
}

// At returns a Problem without a message about what a path of keys leads to, or
// about an element of the list there, for those that check what the
// configuration is about. A key that isn't there has the place of its table.
func (c *Config) At(element int, keys ...string) Problem {
	if c.doc == nil {
		return Problem{Key: keyPath(keys...).String()}
	}
	return c.doc.at(keyPath(keys...).elem(element))
}

// Warnings returns what is allowed but likely not meant, in the order of
// lines.
func (c *Config) Warnings() []Problem { return slices.Clone(c.warnings) }
