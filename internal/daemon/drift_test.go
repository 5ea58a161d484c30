package daemon

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// rarely has the table compared so rarely that only what is heard of others'
// changes can repair it in a test.
func rarely(config string) string {
	return strings.Replace(config, `reconcile = "1s"`, `reconcile = "1h"`, 1)
}

// Whatever others do to the table, the banned client is kept out again within
// moments, and those who are not banned lose not one packet.
func TestDriftIsRepairedUnderTraffic(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	l.nft("--version")
	v := newVisitors(l)
	f := newTraffic(v)
	c := l.daemon(l.config(rarely(firewalled)))
	wait(t, "changes of others to be heard", func() bool {
		s, err := l.client().Status(context.Background())
		return err == nil && s.Actions[0].Watched
	})
	l.requests(visitor, 1)
	l.requests("2001:db8::1", 1)
	l.waitHeld(visitor)
	wait(t, "the other ban", func() bool { return strings.Contains(l.rules(), "2001:db8::") })
	_, err := l.client().Ban(t.Context(), control.BanRequest{Target: pfx("203.0.113.0/24"), For: 3600})
	check(t, err)
	wait(t, "the network", func() bool { return strings.Contains(l.rules(), "203.0.113.0/24") })
	f.dropped(visitor)
	want := l.rules()

	chain := regexp.MustCompile(`chain (\S+) \{`).FindStringSubmatch(want)[1]
	rule := func() string { // the one that drops IPv4 addresses
		m := regexp.MustCompile(`@ban4[^\n]* # handle (\d+)`).FindStringSubmatch(l.nft("-a", "list", "table", "inet", "tailban"))
		if m == nil {
			t.Fatalf("no rule for IPv4 in\n%s", want)
		}
		return m[1]
	}
	for _, damage := range []string{
		"flush ruleset",
		"delete table inet tailban",
		"flush chain inet tailban " + chain,
		"flush chain inet tailban " + chain + "; delete chain inet tailban " + chain,
		"delete rule inet tailban " + chain + " handle HANDLE",
		"delete element inet tailban ban4 { " + visitor + " }",
		"flush set inet tailban ban4",
	} {
		before, began := f.of(visitor), time.Now()
		damage = strings.Replace(damage, "HANDLE", rule(), 1)
		if out := l.nft(damage); out != "" {
			t.Fatalf("nft %s: %s", damage, out)
		}
		wait(t, "the repair of "+damage, func() bool { return l.rules() == want })
		took := time.Since(began)
		f.dropped(visitor)
		t.Logf("%s: as before after %v, %d datagrams of the banned came through", damage, took, f.of(visitor).arrived-before.arrived)
	}
	f.wantAll(otherVisitor)
	if left := l.left(visitor); left < 58*time.Minute || left > time.Hour {
		t.Errorf("repaired with %v left", left)
	}
	c.stop()
	c.journal.want(t, 1, "banned", "client", visitor)
	if len(c.journal.said("the action held other bans than it should, repaired")) == 0 {
		t.Error("nothing was said of it")
	}
}
