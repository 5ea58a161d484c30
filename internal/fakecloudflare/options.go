package fakecloudflare

import "time"

// What New makes if Options names nothing else: one account with one zone, and a
// token that may do everything the double knows.
const (
	AccountID = "0a0b0c0d0e0f00112233445566778899"
	ZoneID    = "f0e0d0c0b0a000998877665544332211"
	ZoneName  = "example.com"
	Secret    = "fake-token-of-the-double-0123456789-abcd"
)

// A Permission is one that a token can carry, by the name Cloudflare's dashboard has
// for it.
type Permission string

const (
	ListsRead       Permission = "Account Filter Lists Read"
	ListsEdit       Permission = "Account Filter Lists Edit"
	ZoneWAFRead     Permission = "Zone WAF Read"
	ZoneWAFEdit     Permission = "Zone WAF Edit"
	AccessRead      Permission = "Account Firewall Access Rules Read"
	AccessEdit      Permission = "Account Firewall Access Rules Edit"
	ZoneAccessRead  Permission = "Zone Firewall Services Read"
	ZoneAccessEdit  Permission = "Zone Firewall Services Edit"
	AccountSettings Permission = "Account Settings Read"
	ZoneRead        Permission = "Zone Read"
)

// An Account owns lists, account-wide access rules and zones.
type Account struct {
	ID    string
	Name  string
	Zones []Zone
}

// A Zone has a set of custom rules and access rules of its own.
type Zone struct {
	ID   string
	Name string
}

// A Token is what a client signs its requests with. ID is what logs and answers name
// it by. Owner is whom its requests are counted for, as Cloudflare counts those of a
// user together, whatever token they came with. No Permissions means all of them.
type Token struct {
	Secret      string
	ID          string
	Owner       string
	Status      string // "active" if empty
	Permissions []Permission
	Accounts    []string // none: every account
	OfAccount   bool     // owned by an account, not by a user: the two are verified at different paths
	Expires     time.Time
}

// A GlobalKey is the older way to sign: X-Auth-Email and X-Auth-Key. It may do
// everything.
type GlobalKey struct {
	Email, Key string
}

// Limits are quotas. A zero takes the value of Cloudflare's free plan.
type Limits struct {
	Requests       int           // 1,200 of one owner within RequestsWindow
	RequestsWindow time.Duration // 5 min
	Penalty        time.Duration // 5 min: how long everything is refused afterwards

	Writes      int           // 30,000 requests of one account that change items, within ItemsWindow
	ItemChanges int           // 1,000,000 items changed by them
	ItemsWindow time.Duration // 12 h

	Lists       int // 1 custom list in an account
	Items       int // 10,000 items in all lists of an account
	CustomRules int // 5 custom rules in a zone
	AccessRules int // 50,000 in an account with its zones
	PageSize    int // 500 items on a page; more are not refused, but not given either
	Body        int // 32 MiB
}

// Options say how a double behaves. A zero value of a field is what the real API is
// documented to do. Server.Change sets them later.
type Options struct {
	Now  func() time.Time // time.Now if nil
	Seed uint64

	Accounts  []Account
	Tokens    []Token
	GlobalKey GlobalKey
	Limits    Limits

	// An operation on items is pending for half of Delay and running for the other
	// half: 2 s if zero, plus up to DelayJitter by chance. Until then, old items are read.
	Delay       time.Duration
	DelayJitter time.Duration

	Queue           bool // operations wait for each other, as older documents say, and are not refused
	PendingRetry    int  // seconds in Retry-After when one is refused for another that is pending; 0: no header
	AcceptWith200   bool // operations are accepted with 200, as the SDK says, instead of 201
	FullAtRequest   bool // too many items are refused at once, and not by the operation; not known which is real
	IgnoreUnknownID bool // a deletion may name items that are not there
	ShortIPv6       bool // the rule of before July 2025: IPv6 only as networks of /12 to /64
	EmptyAfter      bool // the last page has an empty cursor instead of none

	FullIPv6 bool // access rules show IPv6 with all its zeros; not known which is real

	Skew time.Duration // how far the API's own clock, in its answers, is ahead of Now
	Slow time.Duration // how late an answer is with the fault SlowAnswer: 30 s if zero

	LogSize int // requests kept in the log: 100,000 if zero
	LogBody int // bytes of a body kept in it: 16 KiB if zero; negative: none
}

const (
	defaultDelay = 2 * time.Second
	defaultSlow  = 30 * time.Second
	keptOps      = 1000 // operations that are done and can still be asked about
	maxQueue     = 100
)

func (o *Options) fill() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Accounts) == 0 {
		o.Accounts = []Account{{ID: AccountID, Name: "Example", Zones: []Zone{{ID: ZoneID, Name: ZoneName}}}}
	}
	if o.Tokens == nil {
		o.Tokens = []Token{{Secret: Secret, ID: "ed17574386854bf78a67040be0a770b0"}}
	}
	or(&o.Delay, defaultDelay)
	or(&o.Slow, defaultSlow)
	or(&o.LogSize, 100_000)
	or(&o.LogBody, 16<<10)
	l := &o.Limits
	or(&l.Requests, 1200)
	or(&l.RequestsWindow, 5*time.Minute)
	or(&l.Penalty, 5*time.Minute)
	or(&l.Writes, 30_000)
	or(&l.ItemChanges, 1_000_000)
	or(&l.ItemsWindow, 12*time.Hour)
	or(&l.Lists, 1)
	or(&l.Items, 10_000)
	or(&l.CustomRules, 5)
	or(&l.AccessRules, 50_000)
	or(&l.PageSize, 500)
	or(&l.Body, 32<<20)
}

func or[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}
