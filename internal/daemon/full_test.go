package daemon

import (
	"testing"
	"time"
)

const two = "max_bans = 2\n" + site + `
[defaults]
window = "60s"
limit = 0
[jails.web]
ban = "1h"
where = { method = "GET" }
[jails.trial]
ban = "1d"
where = { method = "POST" }
mode = "observe"
[actions.firewall]
type = "nftables"
`

// The ban that ends soonest makes room: at the action, in the store and in
// the detector.
func TestFullTableMakesRoom(t *testing.T) {
	r := newRig(t, start{config: two, actions: []string{"firewall"}})
	r.requests("192.0.2.1")
	r.now = r.now.Add(time.Second)
	r.requests("192.0.2.2")
	r.took()
	r.requests("192.0.2.3")
	u := r.one()
	if targets(u) != "192.0.2.3/32" || len(u.Unbans) != 1 || u.Unbans[0] != pfx("192.0.2.1/32") {
		t.Errorf("got bans %s and unbans %v, want 192.0.2.3/32 instead of 192.0.2.1/32", targets(u), u.Unbans)
	}
	if d := r.action["firewall"].deleted; len(d) != 1 || d[0] != pfx("192.0.2.1/32") {
		t.Errorf("the action was told to let go of %v", d)
	}

	r.requests("192.0.2.1")
	if targets(r.one()) != "192.0.2.1/32" {
		t.Error("a client that was let go isn't counted again")
	}
	r.journal.want(t, 1, "max_bans is reached: the bans that end soonest make room", "max_bans", 2)
}

// A ban that is decided and makes room within one batch must not reach the
// store: an update leaves what it both holds and removes.
func TestBanThatMakesRoomInItsOwnBatch(t *testing.T) {
	r := newRig(t, start{config: two, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	u := r.one()
	if len(u.Bans) != 2 || len(u.Unbans) != 2 || len(u.Offences) != 4 {
		t.Fatalf("%d bans, %d unbans and %d offences, want 2, 2 and 4", len(u.Bans), len(u.Unbans), len(u.Offences))
	}
	for i := range u.Bans {
		target := u.Bans[i].Target
		if r.bans.bans[target] == nil {
			t.Errorf("%v is stored and not in force", target)
		}
		if _, ok := r.action["firewall"].until[target]; !ok {
			t.Errorf("%v is stored and not enforced", target)
		}
	}
	if n := len(r.action["firewall"].until); n != 2 {
		t.Errorf("%d bans are enforced, want 2", n)
	}
}

// A ban ends when its last owner lets go, and not when its first does.
func TestLastOwnerCountsForRoom(t *testing.T) {
	r := newRig(t, start{config: `max_bans = 2` + "\n" + site + `
[defaults]
window = "60s"
limit = 0
[jails.minute]
ban = "1m"
where = { agent = "both" }
[jails.day]
ban = "1d"
where = { agent = "both" }
[jails.hour]
ban = "1h"
where = { agent = "hour" }
[actions.log]
type = "log"
`})
	request := func(client, agent string) {
		r.batch(r.lines(client+` - - [`+r.now.Format("02/Jan/2006:15:04:05 -0700")+`] "GET / HTTP/1.1" 200 5 "-" "`+agent+"\"\n"), r.now)
	}
	request("192.0.2.1", "both")
	request("192.0.2.2", "hour")
	r.took()
	request("192.0.2.3", "hour")
	if u := r.one(); len(u.Unbans) != 1 || u.Unbans[0] != pfx("192.0.2.2/32") {
		t.Errorf("%v made room, want the ban of an hour", u.Unbans)
	}
}
