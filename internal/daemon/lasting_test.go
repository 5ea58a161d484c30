package daemon

import (
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

var expires = regexp.MustCompile(` expires \S*[dhms]`)

// untouched is all of our table with the timeouts that its bans were given: a ban
// that was put in anew has another. (Rules are made anew at a start, see compareChain.)
func (l *kernelLab) untouched() string {
	l.Helper()
	return expires.ReplaceAllString(l.nft("-s", "list", "table", "inet", "tailban"), "")
}

// A restart, ordered or by kill -9, and the time without a daemon: those who are
// banned are kept out throughout, the others lose nothing, nothing is changed in
// the kernel, and nobody is told anything.
func TestRestartsUnderTraffic(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	l.nft("--version")
	v := newVisitors(l)
	f := newTraffic(v)
	config := l.config(firewalled)
	c := l.daemon(config)
	l.requests(visitor, 3)
	l.requests("2001:db8::1", 1)
	l.waitHeld(visitor)
	_, err := l.client().Ban(t.Context(), control.BanRequest{Target: pfx("203.0.113.0/24"), For: 3600, Reason: "a network"})
	check(t, err)
	wait(t, "all bans", func() bool { e, err := l.firewall.List(t.Context()); return err == nil && len(e) == 3 })
	f.dropped(visitor)
	since, table := f.of(visitor), l.untouched()
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM} {
		check(t, c.cmd.Process.Signal(end))
		_ = c.wait()
		f.dropped(visitor) // with no daemon
		c = l.daemon(config)
		events, err := l.client().Follow(t.Context())
		check(t, err)
		c.journal.want(t, 1, "bans compared with what the action held", "held", 3, "added", 0, "removed", 0, "corrected", 0, "changed", 0)
		if got := l.untouched(); got != table {
			t.Errorf("after %v and a start the table is\n%s\nit was\n%s", end, got, table)
		}
		f.dropped(visitor)
		for len(events) > 0 {
			if e := <-events; e.Kind != control.EventFollow {
				t.Errorf("after %v and a start an event %+v", end, e)
			}
		}
		for _, msg := range []string{"banned", "unbanned by hand", "ban over", "banned by hand", "took over bans that are in force and not in the state"} {
			c.journal.want(t, 0, msg)
		}
	}
	c.stop()
	f.wantNoneSince(since, visitor)
	f.wantAll(otherVisitor)
}

// A ban ends in the kernel at its time, to a moment, with a daemon and without.
func TestEndIsExact(t *testing.T) {
	t.Parallel()
	const length = 2 * time.Second
	for _, dead := range []bool{false, true} {
		t.Run(map[bool]string{false: "alive", true: "killed"}[dead], func(t *testing.T) {
			t.Parallel()
			l := newKernelLab(t)
			v := newVisitors(l)
			f := newTraffic(v)
			c := l.daemon(l.config(firewalled))
			got, err := l.client().Ban(t.Context(), control.BanRequest{Target: pfx(visitor + "/32"), For: length.Seconds()})
			check(t, err)
			f.dropped(visitor)
			since := f.of(visitor)
			if dead {
				check(t, c.cmd.Process.Kill())
				_ = c.wait()
			}
			wait(t, "the end", func() bool { return f.of(visitor).arrived > since.arrived })
			at := f.passes(visitor)
			if off := at.Sub(got.Until); off < -clockSlack || off > time.Second {
				t.Errorf("let in again %v behind its end", off)
			} else {
				t.Logf("let in again %v behind its end", off)
			}
			if !dead {
				c.waitSaid("ban over", "target", visitor+"/32")
				c.stop()
			}
			f.wantAll(otherVisitor)
		})
	}
}
