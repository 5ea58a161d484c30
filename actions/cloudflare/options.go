package cloudflare

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/tailban/tailban/actions"
)

// Options of an Action. Account, Token, List and Instance are required, List not for
// access rules.
type Options struct {
	API      string                 // without a slash at the end; "": DefaultAPI
	Account  string                 // its id
	Token    func() (string, error) // read for each request, so that it can be changed
	List     string                 // name of the list
	Create   bool                   // make the list if it isn't there
	Instance string                 // who we are, among those who use the list

	// AccessRules has bans be IP access rules instead of items of a list: of each of the
	// Zones or, without any, of the account. They do what RuleAction says, and have no
	// lease. List and Create are of no use then.
	AccessRules bool

	// Zones are those that a rule is kept in that blocks what is in the list, until a
	// deadline that is renewed; none: somebody else sees to that.
	Zones      []string      // their ids
	Lease      time.Duration // from one renewal to the deadline; 0: DefaultLease
	RuleAction string        // what the rule does; "": RuleBlock

	SyncEvery time.Duration // between writes; 0: DefaultSyncEvery
	Capacity  int           // items that fit into the account's lists; 0: DefaultCapacity
	Budget    Budget        // zero: the defaults

	// Memory is the path of a file for what is left of the budgets, so that no
	// restart makes them larger; "": it is kept in memory only.
	Memory string

	Protected actions.Protected // nil: nothing is
	Log       *slog.Logger      // nil: none

	Transport http.RoundTripper // nil: http.DefaultTransport
	Now       func() time.Time  // nil: time.Now
}

// Defaults of Options.
const (
	DefaultSyncEvery = 15 * time.Second
	DefaultCapacity  = 10_000 // of plans below Enterprise
)

func (o *Options) now() time.Time { return o.Now() }

func (o *Options) fillIn() error {
	if o.Account == "" || o.Token == nil || o.List == "" && !o.AccessRules || !isInstance(o.Instance) {
		return errors.New("account, token, list and instance are required")
	}
	if o.API == "" {
		o.API = DefaultAPI
	}
	if o.SyncEvery <= 0 {
		o.SyncEvery = DefaultSyncEvery
	}
	if o.Lease <= 0 {
		o.Lease = DefaultLease
	}
	if o.RuleAction == "" {
		o.RuleAction = RuleBlock
	}
	if o.Capacity <= 0 && o.AccessRules {
		o.Capacity = DefaultAccessCapacity
	}
	if o.Capacity <= 0 {
		o.Capacity = DefaultCapacity
	}
	if o.Budget.Requests <= 0 {
		o.Budget.Requests = DefaultRequests
	}
	if o.Budget.Changes <= 0 {
		o.Budget.Changes = DefaultChanges
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}
