package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// overlapping has jails whose bans overlap at one action, and one that enforces
// by a second as well.
const overlapping = `
[jails.brief]
limit = 0
window = "60s"
ban = ["2s", "40m"]
where = { path = ["/brief", "/overlap"] }
[jails.short]
limit = 0
window = "60s"
ban = "10m"
where = { path = ["/short", "/both"] }
[jails.long]
limit = 0
window = "60s"
ban = "2h"
where = { path = ["/both", "/overlap"] }
actions = "firewall"
[actions.firewall]
type = "nftables"
[actions.second]
type = "nftables"
table = "second"
`

// twoTables is a daemon with two actions in one kernel.
type twoTables struct {
	*kernelLab
	second *kernelLab
}

// asks has a client ask for a path.
func (x *twoTables) asks(client, path string, at time.Time) {
	x.Helper()
	x.write(strings.Replace(line(client, at), "GET /", "GET "+path, 1))
}

// want waits until the kernel bans a client for about so long in each table.
func (x *twoTables) want(client string, firewall, second time.Duration) {
	x.Helper()
	about := func(l *kernelLab, want time.Duration) bool {
		left := l.left(client)
		return want == 0 && left == 0 || left > want-time.Minute && left <= want+clockSlack && left > 0
	}
	wait(x, client+" to be banned for "+firewall.String()+" and "+second.String(), func() bool {
		return about(x.kernelLab, firewall) && about(x.second, second)
	})
}

// A ban lasts in the kernel, at each action, as long as the longest of the owners
// that name it, whatever comes to that or goes from it.
func TestOwnersInTheKernel(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	x := &twoTables{l, l.table(t, "second")}
	c := l.daemon(l.config(overlapping))
	c.waitSaid("bans compared with what the action held", "action", "second")
	byHand := func(client string, length time.Duration) {
		t.Helper()
		_, err := l.client().Ban(t.Context(), control.BanRequest{Target: pfx(client + "/32"), For: length.Seconds()})
		check(t, err)
	}
	unban := func(client, jail string, lifted, kept int) {
		t.Helper()
		got, err := l.client().Unban(t.Context(), control.UnbanRequest{Target: pfx(client + "/32"), Jail: jail})
		check(t, err)
		if got.Lifted != lifted || got.Kept != kept {
			t.Errorf("%s without %s: %+v, want %d lifted and %d kept", client, jail, got, lifted, kept)
		}
	}
	const brief, overlap, both, short = "203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4"
	now := time.Now()
	x.asks(brief, "/brief", now)
	x.asks(overlap, "/overlap", now)
	x.asks(both, "/both", now)
	x.asks(short, "/short", now)
	x.want(both, 2*time.Hour, 10*time.Minute)
	x.want(short, 10*time.Minute, 10*time.Minute)

	// Somebody else wants it for longer, then another for less.
	byHand(short, 3*time.Hour)
	x.want(short, 3*time.Hour, 3*time.Hour)
	byHand(both, time.Minute)
	c.waitSaid("banned by hand", "target", both+"/32")
	x.want(both, 2*time.Hour, 10*time.Minute)
	unban(both, control.ByHand, 0, 1)
	x.want(both, 2*time.Hour, 10*time.Minute)

	// The one for longer goes, then the last.
	unban(both, "long", 0, 1)
	x.want(both, 10*time.Minute, 10*time.Minute)
	unban(both, "short", 1, 0)
	x.want(both, 0, 0)
	unban(short, "short", 0, 1)
	x.want(short, 3*time.Hour, 3*time.Hour)

	// The first owner's time is up: the other's action goes on, that of none lets go.
	x.want(overlap, 2*time.Hour, 0)
	c.waitSaid("ban over", "target", brief+"/32")
	x.want(brief, 0, 0)
	x.asks(brief, "/brief", time.Now().Add(time.Second)) // a second offence: the log has whole seconds only
	x.want(brief, 40*time.Minute, 40*time.Minute)
	c.stop()
	c.journal.want(t, 1, "banned", "client", brief, "offence", 2)
	x.want(overlap, 2*time.Hour, 0)
}
