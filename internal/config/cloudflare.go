package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailban/tailban/internal/notify"
	"github.com/tailban/tailban/parser"
)

// Cloudflare is where bans are at Cloudflare, and how much may be asked of it.
type Cloudflare struct {
	Account  string        // its id
	Token    notify.Secret // in a file
	List     string        // name of the account list
	Create   bool          // the list is made if it isn't there
	Instance string        // who we are among those who use the list; "": the host's name
	API      string        // where the API is; "": Cloudflare's

	// AccessRules has bans be IP access rules: of the Zones or, without any, of the
	// account. There is no list then, and no lease.
	AccessRules bool

	Zones      []string      // ids of those that a rule is kept in; none: somebody else sees to that
	Lease      time.Duration // how long such a rule works without being renewed
	RuleAction string        // what it does

	SyncEvery time.Duration // between writes
	Capacity  int           // items that fit into the account's lists
	Requests  int           // in 5 minutes
	Changes   int           // of items in 12 hours
}

// Bounds of what may be asked of Cloudflare, which has such ones itself.
const (
	minSync, maxSync         = 5 * time.Second, 10 * time.Minute
	minRequests, maxRequests = 60, 1200
	minChanges, maxChanges   = 100, 1_000_000
	maxCapacity              = 500_000
	minLease, maxLease       = 5 * time.Minute, 24 * time.Hour
)

// Actions of a rule at Cloudflare.
const (
	RuleBlock            = "block"
	RuleManagedChallenge = "managed_challenge"
	RuleJSChallenge      = "js_challenge"
)

// NewCloudflare is a list for which there is no configuration. The error says what of
// it can't be right.
func NewCloudflare(account, list, api string, token notify.Secret) (*Cloudflare, error) {
	path, err := filepath.Abs(token.Path)
	if err != nil {
		return nil, fmt.Errorf("the file of the token: %w", err)
	}
	token.Path = path
	c := &Cloudflare{
		Account: account, Token: token, List: list, API: api, SyncEvery: DefaultSyncEvery, Capacity: DefaultCapacity,
		Requests: DefaultRequests, Changes: DefaultChanges,
	}
	return c, c.problem()
}

// readCloudflare reads what is particular to Cloudflare. owners says which action
// has an account.
func readCloudflare(t named, a *Action, env []string, owners map[string]string) {
	c := &Cloudflare{
		List: DefaultList, Lease: DefaultLease, RuleAction: RuleBlock, SyncEvery: DefaultSyncEvery, Capacity: DefaultCapacity, Requests: DefaultRequests, Changes: DefaultChanges,
	}
	a.Cloudflare, a.Reconcile = c, DefaultEdgeReconcile
	if n, ok := t.get("reconcile"); ok {
		a.Reconcile, _ = n.duration(minEdgeReconcile, maxReconcile)
	}
	if n, ok := t.get("account"); ok {
		if c.Account, ok = n.text(); ok && !isID(c.Account) {
			n.bad("must be the id of an account: 32 digits and letters from a to f, as the dashboard shows it")
		} else if owner := owners["account "+c.Account]; owner != "" {
			n.bad("is that of actions.%s as well: two would have two budgets for it, and undo each other's bans. Use one action for each account: all jails can name it", owner)
		} else if c.Account != "" {
			owners["account "+c.Account] = a.Name
		}
	} else {
		t.missing("account", "required: the id of the account, as the dashboard shows it")
	}
	if n, ok := t.get("token_file"); ok {
		c.Token = n.secretFile(env)
	} else {
		t.missing("token_file", "required: the file with an API token, or the name of a credential")
	}
	c.readMode(t)
	if n, ok := t.get("list"); ok && !c.AccessRules {
		if c.List, ok = n.text(); ok && !isListName(c.List) {
			n.bad("must be 1 to 50 lower-case letters, digits and _")
		}
	}
	if n, ok := t.get("create_list"); ok {
		c.Create, _ = n.flag()
	}
	if n, ok := t.get("instance"); ok {
		if c.Instance, ok = n.text(); ok && !isInstance(c.Instance) {
			n.bad("must be 1 to 64 letters, digits, dots, - and _")
		}
	}
	if n, ok := t.get("api_base"); ok {
		c.API = n.apiBase()
	}
	if n, ok := t.get("zones"); ok {
		c.Zones = n.nonEmptyTexts(func(item node, s string) bool {
			if !isID(s) {
				item.bad("must be the id of a zone: 32 digits and letters from a to f, as the dashboard shows it")
			}
			return isID(s)
		})
	}
	for _, x := range []struct {
		key  string
		read func(node)
	}{
		{"lease", func(n node) { c.Lease, _ = n.duration(minLease, maxLease) }},
		{"rule_action", func(n node) { c.RuleAction, _ = n.oneOf(RuleBlock, RuleManagedChallenge, RuleJSChallenge) }},
	} {
		n, ok := t.get(x.key)
		if !ok {
			continue
		}
		x.read(n)
		if _, given := t.table["zones"]; !given && !c.AccessRules {
			n.bad("is about the rule that is kept in zones, and none are named")
		}
	}
	if n, ok := t.get("sync_every"); ok {
		c.SyncEvery, _ = n.duration(minSync, maxSync)
	}
	for _, x := range []struct {
		key    string
		to     *int
		lo, hi int
	}{{"capacity", &c.Capacity, 1, maxCapacity}, {"requests", &c.Requests, minRequests, maxRequests}, {"changes", &c.Changes, minChanges, maxChanges}} {
		if n, ok := t.get(x.key); ok {
			*x.to, _ = n.whole(x.lo, x.hi)
		}
	}
}

// apiBase reads where the API is. The token goes there, so it must be encrypted, or
// not leave the host.
func (n node) apiBase() string {
	s, ok := n.text()
	if !ok {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		n.bad("must be an address like https://api.cloudflare.com/client/v4")
		return ""
	}
	here, err := netip.ParseAddr(u.Hostname())
	if u.Scheme != "https" && !(u.Scheme == "http" && err == nil && here.IsLoopback()) {
		n.bad("must begin with https://, as the token goes there; http:// is for a loopback address")
		return ""
	}
	return strings.TrimRight(s, "/")
}

func isID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

func isListName(s string) bool {
	return 0 < len(s) && len(s) <= 50 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func isInstance(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= 64
}

// place is what an action has for itself at Cloudflare.
func (c *Cloudflare) place() string {
	who := "this host"
	if c.Instance != "" {
		who = "instance " + c.Instance
	}
	if c.AccessRules {
		return fmt.Sprintf("access rules of %s in %s", who, c.RulesOf())
	}
	return fmt.Sprintf("items of %s in list %s of Cloudflare account %s", who, c.List, c.Account)
}

// problem is that of a place, for one at Cloudflare.
func (c *Cloudflare) problem() error {
	switch {
	case c == nil:
		return errors.New("it names no list")
	case !isID(c.Account):
		return fmt.Errorf("%q is no id of an account", c.Account)
	case !c.AccessRules && !isListName(c.List):
		return fmt.Errorf("%q is no name of a list", c.List)
	case !filepath.IsAbs(c.Token.Path) || c.Token.Text != "":
		return errors.New("it names no file with a token")
	case slices.ContainsFunc(c.Zones, func(s string) bool { return !isID(s) }):
		return errors.New("zones must be ids")
	case c.Instance != "" && !isInstance(c.Instance):
		return fmt.Errorf("no instance is called %q", c.Instance)
	case c.API != "":
		doc := &document{}
		if n := (node{doc: doc, v: c.API}); n.apiBase() != c.API {
			return fmt.Errorf("%q is no address of the API", c.API)
		}
	}
	return nil
}

// warnCloudflare is about bans at Cloudflare that come too late, for clients that it
// never sees, or that stay when nobody looks after them.
func warnCloudflare(doc *document, c *Config) {
	forwarded := slices.ContainsFunc(c.Logs, func(l Log) bool {
		return l.Rewritten || len(c.TrustedProxies) > 0 && l.logged.Has(parser.FieldForward)
	})
	for i := range c.Actions {
		a := &c.Actions[i]
		if a.Cloudflare == nil {
			continue
		}
		at := keyPath("actions", a.Name)
		if !forwarded {
			doc.warn(at.key("type"), "no client is known to come through Cloudflare: set trusted_proxies, and a log format with the forwarding header")
		}
		if a.Cloudflare.AccessRules {
			warnAccessRules(doc, at)
		} else if len(a.Cloudflare.Zones) == 0 {
			doc.warn(at.key("type"), "bans here outlive a dead daemon: they are taken out at their time only while some tailban with this list runs. Name the zones, to have a rule there that lapses by itself")
		}
		short := func(path path, actions []string, ban []time.Duration) {
			if least := 2 * a.Cloudflare.SyncEvery; slices.Contains(actions, a.Name) && len(ban) > 0 && ban[0] < least {
				doc.warn(path, "a ban of %s is half over before action %q has it at Cloudflare: at least twice sync_every, %s",
					FormatDuration(ban[0]), a.Name, FormatDuration(least))
			}
		}
		for i := range c.Jails {
			j := &c.Jails[i]
			short(keyPath("jails", j.Name, "ban"), j.Actions, j.Ban)
		}
		if c.Deny != nil {
			short(keyPath("deny", "ban"), c.Deny.Actions, c.Deny.Ban)
		}
	}
}
