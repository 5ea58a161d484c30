package detector

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An engine that goes on from a snapshot, and takes the lines since again by what
// has happened since, decides from there on what one decides that goes on.
func TestRecallEqualsGoingOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyRules(t)
		o.MaxBans = 1000
		o.Guard = fakeGuard{"203.0.113.1/32": rapid.SampledFrom([]string{"", "own address"}).Draw(t, "guard")}
		whole, cut := NewEngine(o), NewEngine(o)
		wholeLog, cutLog := nginxLog(t, whole), nginxLog(t, cut)
		type again struct {
			text []byte
			turn int
		}
		snapshot := whole.Snapshot()
		var lines []again
		var changes []Change
		stored := map[offenceKey]*Decision{}
		sec := 1000
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			switch rapid.IntRange(0, 19).Draw(t, "what") {
			case 0:
				snapshot, lines, changes = whole.Snapshot(), nil, nil
			case 1, 2:
				cut = NewEngine(o)
				cutLog = nginxLog(t, cut)
				cut.RestoreSnapshot(snapshot)
				cut.Recall(nil, changes)
				for _, x := range lines {
					cut.Again(cutLog, x.text, false, Line{}, x.turn)
				}
				cut.Recalled(time.Unix(0, math.MaxInt64))
				for k, d := range stored {
					cut.RestoreOffence(k.history, d.Target, d.Offence, time.Unix(0, d.Time))
				}
				cut.windows.check(t)
				if got := cutLog.LogCounters; got != (LogCounters{}) || cut.Stats().Late > 0 {
					t.Fatalf("lines taken again were counted: %+v", got)
				}
			}
			text := anyLine(t, &sec)
			lines = append(lines, again{text, len(changes)})
			v := whole.Line(wholeLog, text, false, Line{}, 0)
			for i := range v.Decisions {
				d := v.Decisions[i]
				if d.Refused != "" {
					changes = append(changes, Change{Kind: Spent, Target: d.Target, Client: d.Client, Jail: d.Jail})
					continue
				}
				changes = append(changes, Change{
					Kind: Decided, Target: d.Target, Client: d.Client, Jail: d.Jail, Until: d.Until,
					Enforced: d.Enforced, Observe: d.Observe, Time: d.Time, Offence: d.Offence,
				})
				if !d.Observe {
					stored[offenceKey{keyOf(d.Target), d.History, false}] = &d
				}
			}
			want, got := show(v), show(cut.Line(cutLog, text, false, Line{}, 0))
			if got != want {
				t.Fatalf("%s: after a cut\n%s\nwant\n%s", text, got, want)
			}
		}
	})
}

// By what has happened, and when, an event counts or not.
func TestRecall(t *testing.T) {
	const client, network = "203.0.113.1", "203.0.113.0/24"
	one := netip.MustParsePrefix(client + "/32")
	by := func(k ChangeKind, target string, until int) Change {
		return Change{Kind: k, Target: netip.MustParsePrefix(target), Client: one.Addr(), Jail: "web", Enforced: true, Until: second(until)}
	}
	observed := by(Banned, client+"/32", 100)
	observed.Enforced = false
	of := func(c Change, jail string) Change { c.Jail = jail; return c }
	allow := Change{Kind: Allowed, Allow: []netip.Prefix{netip.MustParsePrefix(network)}}
	disallow := Change{Kind: Allowed, Disallow: allow.Allow}
	for name, tt := range map[string]struct {
		allowed []netip.Prefix
		changes []Change
		turn    int // of the event at 25 s, which comes after two others
		left    int // events that count in the end
	}{
		"nothing":                           {nil, nil, 0, 3},
		"decided before":                    {nil, []Change{by(Decided, client+"/32", 25)}, 1, 1},
		"decided, and banned":               {nil, []Change{by(Decided, client+"/32", 26)}, 1, 0},
		"decided after":                     {nil, []Change{by(Decided, client+"/32", 26)}, 0, 0},
		"decided by another":                {nil, []Change{of(by(Decided, client+"/32", 25), "shop")}, 1, 3},
		"by one that is gone":               {nil, []Change{of(by(Decided, client+"/32", 26), "gone")}, 1, 2},
		"refused before":                    {nil, []Change{by(Spent, client+"/32", 0)}, 1, 1},
		"refused after":                     {nil, []Change{by(Spent, client+"/32", 0)}, 0, 0},
		"refused, and another counts":       {nil, []Change{of(by(Spent, client+"/32", 0), "shop")}, 0, 3},
		"the jail began before":             {nil, []Change{by(Begun, client+"/32", 0)}, 1, 1},
		"the jail began after":              {nil, []Change{by(Begun, client+"/32", 0)}, 0, 0},
		"another began":                     {nil, []Change{of(by(Begun, client+"/32", 0), "shop")}, 0, 3},
		"denied":                            {nil, []Change{of(by(Decided, client+"/32", 26), DenyName)}, 1, 2},
		"banned before":                     {nil, []Change{by(Banned, client+"/32", 26)}, 1, 2},
		"banned after":                      {nil, []Change{by(Banned, client+"/32", 26)}, 0, 3},
		"observed by one that enforces now": {nil, []Change{observed}, 1, 3},
		"observed":                          {nil, []Change{of(observed, "look")}, 1, 3},
		"observed by another":               {nil, []Change{of(observed, "shop")}, 1, 3},
		"observed by one that is gone":      {nil, []Change{of(observed, "gone")}, 1, 3},
		"denial observed":                   {nil, []Change{of(observed, DenyName)}, 1, 3},
		"its network banned":                {nil, []Change{by(Banned, network, 26)}, 1, 2},
		"a network banned later":            {nil, []Change{by(Banned, network, 26)}, 0, 3},
		"a ban lifted":                      {nil, []Change{by(Banned, client+"/32", 26), by(Lifted, client+"/32", 0)}, 2, 3},
		"lifted later":                      {nil, []Change{by(Banned, client+"/32", 26), by(Lifted, client+"/32", 0)}, 1, 2},
		"banned anew":                       {nil, []Change{by(Banned, client+"/32", 90), by(Lifted, client+"/32", 0), by(Banned, client+"/32", 25)}, 3, 3},
		"two bans":                          {nil, []Change{by(Banned, client+"/32", 26), by(Banned, client+"/32", 25)}, 2, 2},
		"used up":                           {nil, []Change{by(UsedUp, client+"/32", 0)}, 1, 1},
		"used up after":                     {nil, []Change{by(UsedUp, client+"/32", 0)}, 0, 0},
		"allowed":                           {allow.Allow, nil, 0, 2},
		"allowed, no longer":                {allow.Allow, []Change{disallow}, 1, 3},
		"allowed, no longer later":          {allow.Allow, []Change{disallow}, 0, 2},
		"allowed since":                     {nil, []Change{allow}, 1, 2},
		"allowed later":                     {nil, []Change{allow}, 0, 3},
		"allowed for a while":               {nil, []Change{allow, disallow}, 1, 2},
		"and before":                        {nil, []Change{allow, disallow}, 0, 3},
		"and after":                         {nil, []Change{allow, disallow}, 2, 3},
		"allowed again":                     {nil, []Change{allow, disallow, allow}, 3, 2},
	} {
		s, o := snapshotted(t, client)
		o.Jails[0].Limit = 9
		look := o.Jails[0]
		look.Name, look.Observe = "look", true
		o.Jails = append(o.Jails, look, Jail{Name: "shop", Logs: []string{"m"}, Window: time.Minute, Ban: []time.Duration{time.Hour}})
		o.MaxBans, o.Deny = 10, &Deny{Agents: []string{"bad"}, Ban: []time.Duration{time.Hour}, Observe: true}
		e := NewEngine(o)
		e.RestoreSnapshot(s.Snapshot())
		e.Recall(tt.allowed, tt.changes)
		l := nginxLog(t, e)
		if got := e.Again(l, []byte(line(client, 25, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, tt.turn).Time; got != second(25) {
			t.Errorf("%s: its time is %d", name, got)
		}
		e.Recalled(time.Unix(0, second(0)))
		left := 0
		if w := e.windows.look(e.jail("web").rule, keyOf(one)); w != nil {
			left = len(w.times)
		}
		if left != tt.left {
			t.Errorf("%s: %d events count, want %d", name, left, tt.left)
		}
		if watched := e.windows.look(e.jail("look").rule, keyOf(one)) != nil; name == "observed" && watched {
			t.Errorf("%s: it counts in the jail that observed", name)
		}
		if n := len(e.bans.entries); n != 0 {
			t.Errorf("%s: %d bans are left that run at the end", name, n)
		}
	}
}

// Of lines beyond a limit that was lowered so many are kept that the next one
// crosses it; none decides.
func TestRecallKeepsWhatALimitNeeds(t *testing.T) {
	const client = "203.0.113.1"
	s, o := snapshotted(t, client)
	e := NewEngine(o)
	e.RestoreSnapshot(s.Snapshot())
	e.Recall(nil, nil)
	l := nginxLog(t, e)
	for i := range 1000 {
		e.Again(l, []byte(line(client, 25+i%3, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0)
	}
	e.Recalled(time.Unix(0, second(0)))
	w := e.windows.look(e.jail("web").rule, keyOf(netip.MustParsePrefix(client+"/32")))
	if len(w.times) != o.Jails[0].Limit || w.times[0] < second(25) {
		t.Errorf("kept %v", fmt.Sprint(w.times))
	}
	if !third(t, e, client) {
		t.Error("the next one does not decide")
	}
	e.windows.check(t)
}
