package daemon

import (
	"testing"
	"time"
)

// Two jails decide at the same line: one ban, two owners, and each action
// bans for the longest of those that name it.
func TestSeveralJailsAtOneLine(t *testing.T) {
	r := newRig(t, start{actions: []string{"short", "both"}, config: site + `
[jails.minute]
limit = 0
window = "60s"
ban = "1m"
actions = ["short", "both"]
[jails.hour]
limit = 0
window = "60s"
ban = "1h"
actions = ["both"]
[actions.short]
type = "log"
[actions.both]
type = "log"
`})
	r.requests("192.0.2.1")
	u := r.one()
	if len(u.Bans) != 1 || len(u.Bans[0].Owners) != 2 || len(u.Offences) != 2 {
		t.Fatalf("got %+v, want one ban of two owners and an offence each", u)
	}
	target := u.Bans[0].Target
	for action, length := range map[string]time.Duration{"short": time.Minute, "both": time.Hour} {
		if got, want := r.action[action].until[target], r.now.Add(length); !got.Equal(want) {
			t.Errorf("action %s is to ban until %v, want %v", action, got, want)
		}
	}

	// The first owner goes, the ban stays.
	r.expire(r.now.Add(time.Minute))
	if u := r.one(); len(u.Bans) != 1 || len(u.Bans[0].Owners) != 1 || u.Bans[0].Owners[0].Jail != "hour" || u.Len() != 1 {
		t.Errorf("after a minute %+v is stored, want the ban with one owner", u)
	}
	r.journal.want(t, 0, "ban over")
}
