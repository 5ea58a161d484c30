package daemon

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Ten thousand bans within a second or two: the log stays small, and what it
// leaves out is counted, also if no ban ever follows.
func TestStormIsNotLoggedOneByOne(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.now = r.now.Truncate(time.Second)
	const storm = 10_000
	for i := range storm / 100 {
		if i == storm/200 {
			r.now = r.now.Add(time.Second)
		}
		var clients []string
		for j := range 100 {
			c := fmt.Sprintf("198.18.%d.%d", i, j)
			clients = append(clients, c, c)
		}
		r.requests(clients...)
	}
	if n := len(r.action["firewall"].until); n != storm {
		t.Fatalf("%d bans are enforced, want %d", n, storm)
	}
	r.upkeep(r.now.Add(upkeep))
	logged := len(r.journal.said("banned"))
	if logged != 2*perSecond {
		t.Errorf("%d bans were logged, want %d", logged, 2*perSecond)
	}
	left := 0
	for _, rec := range r.journal.said("more bans and offences than are logged one by one") {
		left += int(rec["not_logged"].(float64))
	}
	if logged+left != storm {
		t.Errorf("%d logged and %d said to be left out, want %d together", logged, left, storm)
	}
}

// What was left out in the last second is said at the end.
func TestStopSaysWhatWasNotLogged(t *testing.T) {
	r := newRig(t, start{config: refusing, actions: []string{"firewall"}})
	for i := range perSecond + 7 {
		r.requests(fmt.Sprintf("192.0.2.%d", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.loop(ctx, nil, nil)
	r.journal.want(t, 1, "more bans and offences than are logged one by one", "not_logged", 7)
}
