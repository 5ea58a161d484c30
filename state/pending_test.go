package state

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// model is a store one can see through: what each key holds, as text.
type model map[string]string

func (m model) apply(u Update) {
	for _, t := range u.Unbans {
		delete(m, "ban "+t.String())
	}
	for _, k := range u.ForgetOffences {
		delete(m, fmt.Sprintf("offence %v", k))
	}
	for _, k := range u.ForgetPositions {
		delete(m, fmt.Sprintf("position %v", k))
	}
	for _, k := range u.ForgetPardons {
		delete(m, fmt.Sprintf("pardon %v", k))
	}
	for _, t := range u.ForgetAllowances {
		delete(m, fmt.Sprintf("allowance %v", t))
	}
	for _, jail := range u.ForgetHolds {
		delete(m, "hold "+jail)
	}
	for _, n := range u.ForgetNotes {
		delete(m, fmt.Sprintf("note %d", n))
	}
	for _, b := range u.Bans {
		m["ban "+b.Target.String()] = fmt.Sprintf("%+v", b)
	}
	for _, o := range u.Offences {
		m[fmt.Sprintf("offence %v", o.Key())] = fmt.Sprintf("%+v", o)
	}
	for _, p := range u.Positions {
		m[fmt.Sprintf("position %v", p.Key())] = fmt.Sprintf("%+v", p)
	}
	for _, p := range u.Pardons {
		m[fmt.Sprintf("pardon %v", p.Key())] = fmt.Sprintf("%+v", p)
	}
	for _, a := range u.Allowances {
		m[fmt.Sprintf("allowance %v", a.Target)] = fmt.Sprintf("%+v", a)
	}
	for _, h := range u.Holds {
		m["hold "+h.Jail] = fmt.Sprintf("%+v", h)
	}
	for _, n := range u.Notes {
		m[fmt.Sprintf("note %d", n.N)] = fmt.Sprintf("%+v", n)
	}
}

// drawUpdate returns an update of few keys, so that they meet often.
func drawUpdate(t *rapid.T) Update {
	n := func(what string) int { return rapid.IntRange(0, 3).Draw(t, what) }
	var u Update
	for range n("bans") {
		b := testBan(n("ban"))
		b.Owners[0].Count = rapid.Int().Draw(t, "count")
		u.Bans = append(u.Bans, b)
	}
	for range n("unbans") {
		b := testBan(n("ban"))
		u.Unbans = append(u.Unbans, b.Target)
	}
	for range n("offences") {
		o := testOffence(n("offence"))
		o.Count = rapid.Int().Draw(t, "count")
		u.Offences = append(u.Offences, o)
	}
	for range n("forgotten offences") {
		o := testOffence(n("offence"))
		u.ForgetOffences = append(u.ForgetOffences, o.Key())
	}
	for range n("positions") {
		p := testPosition(n("position"))
		p.Offset = rapid.Int64().Draw(t, "offset")
		u.Positions = append(u.Positions, p)
	}
	for range n("forgotten positions") {
		p := testPosition(n("position"))
		u.ForgetPositions = append(u.ForgetPositions, p.Key())
	}
	for range n("pardons") {
		p := testPardon(n("pardon"))
		p.Reason = rapid.String().Draw(t, "reason")
		u.Pardons = append(u.Pardons, p)
	}
	for range n("forgotten pardons") {
		p := testPardon(n("pardon"))
		u.ForgetPardons = append(u.ForgetPardons, p.Key())
	}
	for range n("allowances") {
		a := testAllowance(n("allowance"))
		a.Reason = rapid.String().Draw(t, "reason")
		u.Allowances = append(u.Allowances, a)
	}
	for range n("forgotten allowances") {
		u.ForgetAllowances = append(u.ForgetAllowances, testAllowance(n("allowance")).Target)
	}
	for range n("holds") {
		h := testHold(n("hold"))
		h.Reason = rapid.String().Draw(t, "reason")
		u.Holds = append(u.Holds, h)
	}
	for range n("forgotten holds") {
		u.ForgetHolds = append(u.ForgetHolds, testHold(n("hold")).Jail)
	}
	for range n("notes") {
		x := testNote(1 + uint64(n("note")))
		x.Jail = rapid.StringMatching(`[a-z]*`).Draw(t, "jail")
		u.Notes = append(u.Notes, x)
	}
	for range n("forgotten notes") {
		u.ForgetNotes = append(u.ForgetNotes, 1+uint64(n("note")))
	}
	return u
}

// What reaches the disk is at each commit exactly what all updates put before
// it amount to, however commits fail and updates arrive meanwhile.
func TestCommitsAreWholePrefixesOfWhatWasPut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWriter(nil, nil)
		p := newPace(w.interval)
		defer p.stop()
		put, disk := model{}, model{}
		add := func() {
			u := drawUpdate(t)
			put.apply(u)
			w.waiting.add(&u)
		}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for range rapid.IntRange(0, 3).Draw(t, "before") {
				add()
			}
			atLaunch := maps.Clone(put)
			u := w.takeOff()
			for range rapid.IntRange(0, 3).Draw(t, "during") {
				add()
			}
			if rapid.Bool().Draw(t, "fails") {
				w.giveBack(fmt.Errorf("disk full"))
				continue
			}
			disk.apply(u)
			w.giveBack(nil)
			if !maps.Equal(disk, atLaunch) {
				t.Fatalf("disk holds\n%v\nput was\n%v", disk, atLaunch)
			}
		}
	})
}

func TestPendingGrowsWithKeysOnly(t *testing.T) {
	p := newPending()
	for range 1000 {
		for n := range 3 {
			b := testBan(n)
			p.add(&Update{Bans: []Ban{b}, Positions: []Position{testPosition(n)}})
			p.add(&Update{Unbans: []netip.Prefix{b.Target}, Offences: []Offence{testOffence(n)}})
		}
	}
	u := p.update()
	if p.len() != 9 || u.Len() != 9 || len(u.Unbans) != 3 {
		t.Errorf("%d records wait (%d in the update, %d unbans), want 9, 9 and 3", p.len(), u.Len(), len(u.Unbans))
	}
}
