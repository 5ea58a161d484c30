package detector

import (
	"fmt"
	"testing"
	"time"
)

// A jail that is held decides as one that is configured to observe does, also
// after a reload, and goes on where it was when it is resumed.
func TestHold(t *testing.T) {
	o := Options{Jails: []Jail{trap(t, "a", time.Minute, time.Hour)},
		Deny: &Deny{Agents: []string{"sqlmap"}, Ban: bans(time.Minute, time.Hour)}}
	e := NewEngine(o)
	l := nginxLog(t, e)
	hold := func(name string, on bool) func() { return func() { e.Hold(name, on) } }
	for _, tt := range []struct {
		before func()
		sec    int
		agent  string
		want   string
	}{
		{nil, 0, "x", "counted, a#1 observe false"},
		{hold("a", true), 1, "x", "already banned"},
		{nil, 60, "x", "counted, a#2 observe true"},
		{nil, 61, "x", "already banned"},
		{func() { e.Use(Compile(o)) }, 62, "x", "already banned"},
		{func() { e.Use(Compile(Options{})); e.Use(Compile(o)) }, 63, "x", "counted, a#3 observe true"},
		{hold("a", false), 64, "x", "counted, a#2 observe false"},
		{nil, 65, "x", "already banned"},
		{func() { e.Unban(pfx("203.0.113.5/32")[0]); e.Hold("a", true); e.Hold(DenyName, true) }, 70, "sqlmap", "counted, deny#1 observe true, a#4 observe true"},
		{hold(DenyName, false), 71, "sqlmap", "denied, deny#1 observe false"},
	} {
		if tt.before != nil {
			tt.before()
		}
		v := e.Line(l, []byte(line("203.0.113.5", tt.sec, "GET /a HTTP/1.1", 200, tt.agent, "-")), false, Line{}, 0)
		got := v.Step.String()
		for _, d := range v.Decisions {
			got += fmt.Sprintf(", %s#%d observe %v", d.Jail, d.Offence, d.Observe)
		}
		if got != tt.want {
			t.Errorf("at %d: got %q, want %q", tt.sec, got, tt.want)
		}
	}
}

// Where histories are shared, that of what observes has what is held as well.
func TestHoldInSharedHistory(t *testing.T) {
	e := NewEngine(Options{SharedHistory: true, Jails: []Jail{trap(t, "a", time.Minute, time.Hour)}})
	l := nginxLog(t, e)
	e.Hold("a", true)
	got := visit(e, l, "203.0.113.5", 0, "/a") + visit(e, l, "203.0.113.5", 60, "/a")
	e.Hold("a", false)
	got += visit(e, l, "203.0.113.5", 61, "/a")
	if want := "a#1 1m0s in (observed) a#2 1h0m0s in (observed) a#1 1m0s in (shared) "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHeld(t *testing.T) {
	o := Options{Jails: []Jail{trap(t, "a", time.Minute)}, Deny: &Deny{Ban: bans(time.Minute)}}
	e := NewEngine(o)
	if !e.Hold(DenyName, true) || !e.Hold("a", true) || e.Hold("b", true) || fmt.Sprint(e.Held()) != "[a deny]" {
		t.Errorf("held: %v", e.Held())
	}
	e.Use(Compile(Options{}))
	if len(e.Held()) != 0 || e.Hold("a", false) {
		t.Errorf("held without rules: %v", e.Held())
	}
	e.Use(Compile(o))
	if fmt.Sprint(e.Held()) != "[deny]" {
		t.Errorf("after one was resumed while it was gone: %v", e.Held())
	}
}

// Verdicts name the target from the step on where it is known, and the event
// is there to be looked at.
func TestVerdictTargetAndEvent(t *testing.T) {
	e := NewEngine(everything(t))
	l := nginxLog(t, e)
	for _, tt := range []struct{ line, step, target string }{
		{"what", "unparsed", "invalid Prefix"},
		{line("192.0.2.1", 0, "GET / HTTP/1.1", 200, "x", "unknown"), "no client", "invalid Prefix"},
		{line("203.0.113.1", 0, "GET / HTTP/1.1", 200, "x", "-"), "allowed", "203.0.113.1/32"},
		{line("203.0.113.5", 0, "GET / HTTP/1.1", 200, "UptimeBot", "-"), "wanted agent", "203.0.113.5/32"},
		{line("203.0.113.2", 0, "GET / HTTP/1.1", 200, "x", "-"), "denied", "203.0.113.2/32"},
		{line("192.0.2.1", 0, "GET / HTTP/1.1", 200, "x", "-"), "infrastructure", "192.0.2.1/32"},
		{line("192.0.2.1", 0, "GET /a HTTP/1.1", 200, "x", "2001:db8:2::7"), "counted", "2001:db8:2::/64"},
		{line("2001:db8:2::8", 0, "GET /a HTTP/1.1", 200, "x", "-"), "already banned", "2001:db8:2::/64"},
		{line("2001:db8:1::8", 0, "GET / HTTP/1.1", 200, "y", "-"), "counted", "2001:db8:1::8/128"},
	} {
		v := e.Line(l, []byte(tt.line), false, Line{}, 0)
		if target := e.Target(v.Client); v.Step.String() != tt.step || target.String() != tt.target {
			t.Errorf("%s: %s, %s; want %s, %s", tt.line, v.Step, target, tt.step, tt.target)
		}
	}
	if ev := e.Event(); string(ev.Agent) != "y" || ev.Peer.String() != "2001:db8:1::8" {
		t.Errorf("%+v", ev)
	}
}
