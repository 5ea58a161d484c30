// Package notify tells others what happens: it posts digests of bans, lifted
// bans and alarms to a program or to a chat.
//
// Whoever publishes never waits, and nothing that goes wrong here is anybody
// else's problem: an endpoint that is slow, gone or refuses costs a bounded
// amount of memory and the messages to it.
package notify

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Formats of messages.
const (
	FormatJSON    = "json"    // documented in docs/notify.md, signed on request
	FormatSlack   = "slack"   // an incoming webhook of Slack, and of those who take the same
	FormatDiscord = "discord" // a webhook of a Discord channel
	FormatNtfy    = "ntfy"    // a topic of ntfy
)

// Formats lists them all.
func Formats() []string { return []string{FormatJSON, FormatSlack, FormatDiscord, FormatNtfy} }

// Defaults and bounds of options.
const (
	DefaultInterval = 30 * time.Second
	MinInterval     = time.Second
	MaxInterval     = 24 * time.Hour

	DefaultPerHour = 60
	MaxPerHour     = 3600
)

// Options make a Notifier.
type Options struct {
	Name   string // as configured
	Host   string // that messages say they come from
	Format string // one of Formats

	URL   Secret // where to post: http or https
	Key   Secret // signs messages of FormatJSON; empty: they are not signed
	Token Secret // sent as a bearer token, of FormatJSON and FormatNtfy; empty: none

	Kinds    []Kind        // of events to tell of
	Interval time.Duration // from the beginning of one message to the next, at least
	PerHour  int           // messages in an hour, at most, tries among them
}

// Stats tell how a Notifier does.
type Stats struct {
	Failing bool
	Since   time.Time // of failing, or of working again; zero: neither yet
	Err     error     // why it fails

	Sent    uint64    // messages that were taken
	Last    time.Time // when the last one was
	Told    time.Time // what was published before has been told, or refused
	Waiting int       // events that are not told yet
	Lost    uint64    // events in messages that the endpoint refused for good
}

// Notifier posts digests of what is published to it.
type Notifier struct {
	o     Options
	kinds map[Kind]bool
	post  func(context.Context, message) answer
	ready func() error  // whether messages can be addressed
	wake  chan struct{} // holds a token while there is something to tell

	mu    sync.Mutex
	pace  pace
	next  digest
	out   int // events of the message that is on its way
	taken time.Time
	stats Stats
}

// New makes a notifier. It reads no secrets yet.
func New(o Options) (*Notifier, error) {
	n := &Notifier{o: o, kinds: map[Kind]bool{}, wake: make(chan struct{}, 1)}
	if o.Interval < MinInterval || o.PerHour < 1 {
		return nil, errors.New("notify: an interval of a second and a message an hour is the least")
	}
	for _, k := range o.Kinds {
		n.kinds[k] = true
	}
	p, err := newPoster(o)
	if err != nil {
		return nil, err
	}
	n.post, n.ready = p.post, p.ready
	n.pace.most = o.PerHour
	return n, nil
}

// Publish has an event told, if it is of a kind that was asked for. It never
// waits.
func (n *Notifier) Publish(ev Event) {
	if !n.kinds[ev.Kind] {
		return
	}
	ev.clip()
	n.mu.Lock()
	n.next.add(ev)
	n.mu.Unlock()
	n.awake()
}

// Tells reports whether events of a kind are told.
func (n *Notifier) Tells(k Kind) bool { return n.kinds[k] }

// Stats returns how it does now.
func (n *Notifier) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stats
	s.Waiting = n.next.total() + n.out
	return s
}

// ParseURL reads where to post.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil: // its text would hold what may be secret
		return nil, errors.New("is not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("names no host")
	case u.User != nil:
		return nil, errors.New("must not hold a user or password: token_file is for what proves who we are")
	case !portFits(u):
		return nil, errors.New("has a port that there is none of: 1 to 65535")
	case u.Fragment != "":
		return nil, errors.New("must not have a fragment: # and what follows is never sent")
	}
	return u, nil
}

// Loopback reports whether an address is one of this machine that nobody else
// sees.
func Loopback(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback() || u.Hostname() == "localhost"
}

func portFits(u *url.URL) bool {
	n, err := strconv.Atoi(u.Port())
	return u.Port() == "" || err == nil && 1 <= n && n <= 65535
}

// Doubts tells what is likely not meant by posting messages of a format there.
func Doubts(format string, u *url.URL) (texts []string) {
	if u.Scheme == "http" && !Loopback(u) {
		texts = append(texts, "messages go there unencrypted, and so does what proves who we are: https:// would not")
	}
	host := strings.ToLower(u.Hostname())
	for _, x := range []struct{ host, format string }{{"hooks.slack.com", FormatSlack}, {"discord.com", FormatDiscord}, {"ntfy.sh", FormatNtfy}} {
		if host == x.host && format != x.format {
			texts = append(texts, x.host+" takes nothing but format = \""+x.format+"\"")
		}
	}
	if format == FormatNtfy && strings.Trim(u.Path, "/") == "" {
		texts = append(texts, "this names no topic: the last part of the address is that")
	}
	return texts
}
