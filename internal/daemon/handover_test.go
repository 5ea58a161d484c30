package daemon

import (
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

const web = site + `
[jails.web]
limit = 1
window = "60s"
ban = "1h"
[actions.firewall]
type = "nftables"
`

// A crash must never leave a ban without the position that it was found at,
// nor the other way round.
func TestBanOffenceAndPositionAreOneUpdate(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	first := line("192.0.2.1", r.now)
	b := r.lines(first, line("192.0.2.1", r.now))
	r.batch(b, r.now)
	u := r.one()

	if len(u.Bans) != 1 || len(u.Offences) != 1 || len(u.Positions) != 1 || u.Len() != 3 {
		t.Fatalf("got %+v, want a ban, an offence and a position", u)
	}
	ban, offence := u.Bans[0], u.Offences[0]
	if ban.Target != pfx("192.0.2.1/32") || ban.Origin != "here" || len(ban.Owners) != 1 {
		t.Fatalf("the ban is %+v", ban)
	}
	o := ban.Owners[0]
	if o.Jail != "web" || o.Count != 2 || o.Offence != 1 || !o.Until.Equal(r.now.Add(time.Hour)) {
		t.Errorf("the owner is %+v", o)
	}
	if want := (state.LineID{Path: "/var/log/site.log", Dev: 1, Ino: 2, Offset: int64(len(first))}); o.Line != want {
		t.Errorf("the crossing line is %+v, want %+v", o.Line, want)
	}
	if offence.Jail != "web" || offence.Target != ban.Target || offence.Count != 1 {
		t.Errorf("the offence is %+v", offence)
	}
	if u.Positions[0] != state.Position(b.Position) {
		t.Errorf("the position is %+v, want %+v", u.Positions[0], b.Position)
	}
	if until := r.action["firewall"].until[ban.Target]; !until.Equal(o.Until) {
		t.Errorf("the action is to ban until %v, want %v", until, o.Until)
	}
	r.journal.want(t, 1, "banned", "target", "192.0.2.1/32", "jail", "web")
}

func TestHandedOverBansAreCopies(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.requests("192.0.2.1", "192.0.2.1")
	u := r.one()
	r.bans.bans[pfx("192.0.2.1/32")].Owners[0].Jail = "changed"
	if u.Bans[0].Owners[0].Jail != "web" {
		t.Error("the update shares memory with the table")
	}
}

func TestFinishedFileIsForgotten(t *testing.T) {
	r := newRig(t, start{config: web})
	b := r.lines(line("192.0.2.1", r.now))
	b.Final = true
	r.batch(b, r.now)
	u := r.one()
	p := state.Position(b.Position)
	if len(u.ForgetPositions) != 1 || u.ForgetPositions[0] != p.Key() || u.Len() != 1 {
		t.Errorf("got %+v, want the position forgotten and nothing else", u)
	}
}
