package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// through says why requests of a client that is banned still reach the
// server, as far as that can be told; "" if they don't.
func (d *daemon) through(bans []control.Ban) string {
	for i := range bans {
		b := &bans[i]
		if b.Seen == 0 {
			continue
		}
		if why := d.whyThrough(b); why != "" {
			return fmt.Sprintf("%d requests since the ban, the latest at %s: %s", b.Seen, clock(b.LastSeen), why)
		}
	}
	return ""
}

// inFlight is how long behind a ban a request may be logged that was on its way
// when it was decided: a log's times have no parts of a second.
const inFlight = 3 * time.Second

// whyThrough finds the first reason that there is for requests of a banned
// client, in the order in which they can be told apart.
func (d *daemon) whyThrough(b *control.Ban) string {
	if b.Waiting {
		return "it waits for its turn to be enforced, as more bans come than max_bans_per_minute"
	}
	if b.Observed {
		return "nothing is enforced, as every owner of the ban only observes"
	}
	if by := d.tentative.until(); !by.IsZero() && !by.After(time.Now()) {
		return "nobody has confirmed this start, so no ban is enforced (tailban confirm)"
	}
	forwarded := b.SeenForwarded > 0
	for i := range b.Owners {
		forwarded = forwarded || b.Owners[i].Plane == "forwarded"
	}
	if forwarded {
		for i := range b.Actions {
			if e := d.enforcer(b.Actions[i].Action); e != nil && e.edge != nil {
				return d.whyThroughEdge(b, &b.Actions[i], e)
			}
		}
		return "its requests come through a proxy, and the kernel only sees the proxy's address: this takes an action at the proxy"
	}
	packets := uint64(0)
	for i := range b.Actions {
		at := &b.Actions[i]
		full := false
		if e := d.enforcer(at.Action); e != nil {
			s := e.reconciler.Stats()
			if s.Failing {
				return fmt.Sprintf("action %s is failing: %v", at.Action, s.Err)
			}
			full = s.LeftOut > 0
		}
		if at.Held != nil && !*at.Held {
			if full {
				return fmt.Sprintf("action %s is full: it has no room for the bans that end soonest", at.Action)
			}
			return fmt.Sprintf("action %s does not hold the ban: it was removed by somebody else, or is about to be applied", at.Action)
		}
		if at.Err != "" {
			return fmt.Sprintf("action %s can't tell what it holds: %s", at.Action, at.Err)
		}
		if at.Packets != nil {
			packets += *at.Packets
		}
	}
	if b.LastSeen.Sub(b.Since) <= inFlight {
		return "they were in flight when it was banned"
	}
	if packets == 0 {
		return "no packet of it has met the rule: it comes to a port that the action does not cover, or from one container to another over a bridge of this host, or its address in the log is not the one the kernel sees (a proxy or load balancer in front, whose address belongs into trusted_proxies)"
	}
	return "packets are dropped as well: these came another way (another port, another host, another container)"
}

// enforcer finds an action in use.
func (d *daemon) enforcer(name string) *enforcer {
	for _, e := range d.enforcers() {
		if e.name == name {
			return e
		}
	}
	return nil
}

// matches reports whether a log's pattern, or its path, leads to a file.
func matches(pattern, path string) bool {
	ok, err := filepath.Match(pattern, path)
	return err == nil && ok || pattern == path
}

// lineLength is how many bytes a line takes, its line feed included.
func lineLength(f *os.File, at int64, maxLine int) int64 {
	buf := make([]byte, 4096)
	for n := int64(0); n <= int64(maxLine); {
		k, err := f.ReadAt(buf, at+n)
		for i := range k {
			if buf[i] == '\n' {
				return n + int64(i) + 1
			}
		}
		n += int64(k)
		if err != nil {
			return n
		}
	}
	return int64(maxLine)
}
