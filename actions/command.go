//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/argv"
)

// Defaults and bounds of CommandOptions.
const (
	DefaultCommandTimeout     = 10 * time.Second
	DefaultCommandConcurrency = 4

	maxCommandTimeout     = 10 * time.Minute
	maxCommandConcurrency = 64
	maxCommandBatch       = 100_000
)

// CommandOptions of a Command. Ban and Unban are required. The four programs
// are given as their arguments, the first of which is the absolute path of
// the program itself; see [Command] for what is filled in.
type CommandOptions struct {
	Ban   []string // bans, or gives a ban another time
	Unban []string // takes a ban out
	Check []string // exit status 0: the target is banned, 1: it is not
	List  []string // writes what is banned

	// ListTarget is the key of the target where List writes JSON objects, one
	// after the other or in arrays, and ListSeconds that of the seconds left.
	// Without ListTarget it writes lines: a target, and after white space, if it
	// can tell, the seconds left.
	ListTarget  string
	ListSeconds string

	// Expires is whether the program ends a ban at its time by itself. If not,
	// Run does.
	Expires bool

	// Batch is how many targets one run of Ban or Unban gets at most, as lines
	// of JSON on standard input. 0 or 1: one.
	Batch int

	Timeout     time.Duration // of one run; 0: DefaultCommandTimeout
	Concurrency int           // runs at a time, of all programs; 0: DefaultCommandConcurrency

	// OnOverdue is called when bans begin to be overdue, and with none when none
	// is any longer; one call at a time. It must wait for nothing, and not use the
	// action. nil: nobody listens.
	OnOverdue func(Overdue)

	// WasOverdue says that bans of the action were overdue when another one, before,
	// was let go of: OnOverdue is called when none is, too.
	WasOverdue bool

	// Before is the action that this one replaces: what that could not take out is
	// overdue still, and is tried by this one if Unban is equal. nil: there is none.
	Before *Command

	// Owner is the user whose the programs, and the folders that they are in, may
	// be; beside root. 0: the user of this process.
	Owner int

	Protected Protected    // nil: nothing is
	Log       *slog.Logger // nil: none
}

// CommandStats are counts since NewCommand.
type CommandStats struct {
	Runs     uint64 // of programs, all four
	Failures uint64 // runs that did not do what they should, those that took too long included
	Timeouts uint64 // runs that took too long and were ended
}

// Command enforces bans by programs of the administrator's: those of a
// firewall that tailban does not know, of a router, of an appliance.
//
// # What is run
//
// Programs are executed as they are given, never by a shell. Within their
// arguments these are filled in, as text that an argument consists of or
// contains; no value begins with a hyphen, is split, or holds anything but
// digits, letters, and ".:/+-":
//
//	{address}    192.0.2.7, 2001:db8::     the target without its length
//	{bits}       32, 64                    the length of the target
//	{prefix}     192.0.2.7/32              both
//	{family}     4, 6
//	{seconds}    3600                      time left, rounded up; only in ban
//	{until}      1767225600                the end, in Unix time; only in ban
//	{until_time} 2026-01-01T00:00:00Z      the end, as in RFC 3339; only in ban
//
// {{ and }} stand for braces. An IPv4 address is banned as a /32, an IPv6
// one as its /64 if nothing else was configured: if ban, unban or check is
// given {address} without {bits} or {prefix}, networks of whatever length
// can't be banned; these are rejected with [ErrUnsupported], as are IPv4
// networks wider than a /8 and IPv6 ones wider than a /16. If list contains
// {family} it is run twice, and may contain nothing else.
//
// ban, unban and check have the same on standard input, a line of JSON for
// each target:
//
//	{"verb":"ban","target":"192.0.2.7/32","address":"192.0.2.7","bits":32,"family":4,"seconds":3600,"until":1767225600}
//
// The last two are only there for ban. With Batch the programs ban and unban
// are started once for many targets, read these lines, and can have no
// placeholders.
//
// The working directory is /; the environment is
// PATH=/usr/sbin:/usr/bin:/sbin:/bin and LC_ALL=C and no more; user and
// rights are those of the daemon. Nothing that comes from a log gets into
// arguments, environment or input. Nor does the name of a jail: an action
// holds targets, each for as long as the longest of those who want it
// banned, and these may change meanwhile. Arguments can be seen by every
// user of the host: no secrets in them.
//
// A program that somebody else than root and the daemon's user may change, or may
// put another one in the place of, is not run: Prepare fails. What a program reads
// or runs itself, as a shell does, is not looked at.
//
// A run ends after Timeout at the latest: the program's process group gets
// SIGTERM, and SIGKILL a second later. What a program leaves behind in its
// group when it ends is killed as well.
//
// At most Concurrency programs of an action run at a time, whatever for. Of more
// than one, one is kept for unban and one for the others; check and list take half
// of them at most.
//
// # What programs have to do
//
// Exit status 0 of ban and unban means done, for all targets that were
// given. Everything else means that any part may be, and is tried again. To
// ban what is banned sets its time; to unban what is not banned succeeds. A
// program that fails in that case (ip route del does) is forgiven if check
// or list then shows the target as it should be.
//
// list has to show what tailban has banned and nothing else: what is listed
// and is not to be banned is taken out. Only what can be no ban, as it would be
// rejected (see above), is left alone, with a warning. A line that can't be
// understood is an error.
//
// Without list, what has been applied is kept in memory. With check, some
// hundreds of these targets are asked for at each full pass, in turn, and those
// that somebody else has taken out are put in again. After a restart the memory
// is empty: everything that should be banned is applied again, and what
// ended or was lifted while tailban was stopped is not taken out, since
// nobody knows of it.
//
// # When bans end
//
// With Expires the program ends them. Otherwise Run has them taken out at
// their time, which works only while tailban runs: [Command.Warnings] says
// what that means.
//
// # When programs fail
//
// Failures are the reconciler's to try again. Of a run for many targets that
// fails it is not known which it failed for: these targets are then given in
// smaller groups, down to a single one. A target that has failed three
// times, in the end alone, while the program has worked for others, is
// rejected with [ErrRefused], so that it does not make the whole action
// fail; it is tried again at every full pass. If nothing works, a pass ends
// after a few runs. Removals are given up like that after three times even if
// none works, so that they don't hold up bans: what is still there then is told
// as overdue; see [Command.Overdue].
//
// # Examples
//
// Blackhole routes, by which nothing is sent to who is banned, so that no
// connection comes about. 116 is the mark by which our routes are told from
// others; every number that is not in /etc/iproute2/rt_protos will do:
//
//	ban         = ["/usr/sbin/ip", "route", "replace", "blackhole", "{prefix}", "proto", "116"]
//	unban       = ["/usr/sbin/ip", "route", "del", "blackhole", "{prefix}", "proto", "116"]
//	list        = ["/usr/sbin/ip", "-json", "-{family}", "route", "show", "type", "blackhole", "proto", "116"]
//	list_target = "dst"
//
// A router that is reached by SSH; the program there is called "ban", and
// its user's shell gets the arguments joined by spaces:
//
//	ban     = ["/usr/bin/ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "tailban@router", "ban", "add", "{prefix}", "{seconds}"]
//	unban   = ["/usr/bin/ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "tailban@router", "ban", "del", "{prefix}"]
//	list    = ["/usr/bin/ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "tailban@router", "ban", "list"]
//	expires = true
type Command struct {
	opt CommandOptions
	log *slog.Logger

	ban, unban, check, list argv.Template

	slots  *slots
	wake   chan struct{} // holds one token when there may be an earlier end
	passed chan struct{} // and one when all was listed from memory
	looked netip.Prefix  // that check was asked for last, of lookAround only

	mu     sync.Mutex
	memory memory
	stats  CommandStats
	before *Command  // Before, as long as it has something overdue
	late   time.Time // since when bans are overdue, as it was told; zero: none is

	untried bool // WasOverdue, and nothing has been taken out since
	strange bool // the latest listing has shown what can be no ban

	telling sync.Mutex // held while OnOverdue is called, and before mu
}

var (
	_ Action     = (*Command)(nil)
	_ Overstayer = (*Command)(nil)
)

// NewCommand returns the action. It runs nothing yet. The error names every
// option that is wrong, a line each.
func NewCommand(opt CommandOptions) (*Command, error) {
	if opt.Timeout == 0 {
		opt.Timeout = DefaultCommandTimeout
	}
	if opt.Concurrency == 0 {
		opt.Concurrency = DefaultCommandConcurrency
	}
	if opt.Owner == 0 {
		opt.Owner = os.Geteuid()
	}
	opt.Batch = max(opt.Batch, 1)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	c := &Command{
		opt:    opt,
		log:    opt.Log,
		wake:   make(chan struct{}, 1),
		passed: make(chan struct{}, 1),
		memory: newMemory(),
	}
	c.opt.Before = nil // it isn't kept for ever
	c.succeed(opt.Before)
	if err := errors.Join(c.parse(), opt.validate()); err != nil {
		return nil, err
	}
	c.slots = newSlots(opt.Concurrency)
	if opt.WasOverdue {
		c.late, c.untried = time.Now(), true
	}
	return c, nil
}

// parse reads the four templates.
func (c *Command) parse() error {
	batch := c.opt.Batch > 1
	var errs [4]error
	c.ban, errs[0] = parseTemplate(argv.Ban, c.opt.Ban, batch, true)
	c.unban, errs[1] = parseTemplate(argv.Unban, c.opt.Unban, batch, true)
	c.check, errs[2] = parseTemplate(argv.Check, c.opt.Check, batch, false)
	c.list, errs[3] = parseTemplate(argv.List, c.opt.List, batch, false)
	return errors.Join(errs[:]...)
}

func (o CommandOptions) validate() error {
	var errs []error
	wrong := func(yes bool, format string, args ...any) {
		if yes {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(o.Timeout < 0 || o.Timeout > maxCommandTimeout, "timeout %v: must be between 0 and %v", o.Timeout, maxCommandTimeout)
	wrong(o.Concurrency < 0 || o.Concurrency > maxCommandConcurrency, "concurrency %d: must be from 1 to %d", o.Concurrency, maxCommandConcurrency)
	wrong(o.Batch > maxCommandBatch, "batch %d: must be %d at most", o.Batch, maxCommandBatch)
	wrong(o.ListTarget != "" && len(o.List) == 0, "list_target is set, but not list")
	wrong(o.ListSeconds != "" && o.ListTarget == "", "list_seconds is set, but not list_target: lines have no keys")
	return errors.Join(errs...)
}

// Warnings are sentences on what bans do here while tailban does not run; none
// if they end at their time.
func (c *Command) Warnings() []string {
	switch {
	case c.opt.Expires && c.list.Given():
		return nil
	case c.opt.Expires:
		return []string{"without list, a ban that should not be any longer when tailban starts (its address is allowed now, say) stays until its time"}
	case c.list.Given():
		return []string{"bans here outlive a dead daemon: they are taken out when it runs again, not at their time (expires = true if the program ends them itself)"}
	}
	return []string{"bans here outlive a dead daemon, and those that end while it does not run stay until somebody takes them out by hand: give list, or expires = true if the program ends them itself"}
}

// Action is what to give to a Reconciler. It is a [Holder] if there is a
// check.
func (c *Command) Action() Action {
	if c.check.Given() {
		return checkedCommand{c}
	}
	return c
}

// Prepare implements [Action]. It looks whether the programs are there and
// fit to be run; what they need is theirs to make.
func (c *Command) Prepare(ctx context.Context) error {
	return c.fit(ctx, c.ban, c.unban, c.check, c.list)
}

// PrepareUnban is Prepare for who only takes bans out. The error wraps
// [fs.ErrNotExist] if a program is not there.
func (c *Command) PrepareUnban(ctx context.Context) error {
	return c.fit(ctx, c.unban, c.check, c.list)
}

// fit looks at programs.
func (c *Command) fit(ctx context.Context, programs ...argv.Template) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, t := range programs {
		if !t.Given() {
			continue
		}
		if err := fitToRun(t.Program(), c.opt.Owner); err != nil {
			return Permanent(fmt.Errorf("%s: %w", t.Verb, err))
		}
	}
	return nil
}

// Apply implements [Action]. It waits for every run that it starts, each of
// which Timeout bounds.
func (c *Command) Apply(ctx context.Context, add []Entry, remove []netip.Prefix) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	adds, rejected := c.sortAdds(add, now)
	jobs := c.jobs(argv.Unban, c.sortRemoves(remove, rejected))
	jobs = append(jobs, c.jobs(argv.Ban, adds)...)
	c.carry(ctx, jobs, nil)
	c.confirm(ctx, jobs)
	c.wakeRun()
	c.tellOverdue(ctx)
	return c.verdict(ctx, jobs, rejected)
}

// Close implements [Action]. There is nothing to let go of.
func (c *Command) Close() error { return nil }

// Stats returns the counts. It may be called from any goroutine.
func (c *Command) Stats() CommandStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// checkedCommand is a Command with a check.
type checkedCommand struct{ *Command }

var _ Holder = checkedCommand{}

// Held implements [Holder]. The time left is what we remember; 0: nothing.
func (c checkedCommand) Held(ctx context.Context, target netip.Prefix) (Entry, bool, error) {
	if err := ctx.Err(); err != nil {
		return Entry{}, false, err
	}
	if !c.fits(target) {
		return Entry{}, false, nil // cannot be there
	}
	held, err := c.ask(ctx, target)
	if err != nil || !held {
		return Entry{}, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Entry{Target: target, Left: c.memory.left(target, time.Now())}, true, nil
}
