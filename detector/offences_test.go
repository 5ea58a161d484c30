package detector

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tailban/tailban/parser"
)

// fataler is a test, or one of its property checks.
type fataler interface {
	Helper()
	Fatal(...any)
}

func nginxLog(t fataler, e *Engine) *Log {
	t.Helper()
	f, err := parser.NewFormat("nginx")
	if err != nil {
		t.Fatal(err)
	}
	return e.Log("l", f)
}

// trap is a jail that bans at first sight when its path is asked for.
func trap(t fataler, name string, ladder ...time.Duration) Jail {
	return Jail{Name: name, Logs: []string{"l"}, Window: time.Second, Ban: ladder,
		Where: Where{Match: Conditions{Paths: paths(t, "/"+name)}}}
}

// visit asks for a path and tells what was decided.
func visit(e *Engine, l *Log, client string, sec int, path string) string {
	out := ""
	for _, d := range e.Line(l, []byte(line(client, sec, "GET "+path+" HTTP/1.1", 200, "x", "-")), false, Line{}, 0).Decisions {
		out += fmt.Sprintf("%s#%d %v in %s ", d.Jail, d.Offence, d.Ban, d.History)
	}
	return out
}

func TestLadder(t *testing.T) {
	j := trap(t, "j", time.Minute, 5*time.Minute, time.Hour)
	j.Remember = 2 * time.Hour
	e := NewEngine(Options{Jails: []Jail{j}})
	l := nginxLog(t, e)
	for _, tt := range []struct {
		why  string
		sec  int
		want string
	}{
		{"first", 0, "j#1 1m0s in j "},
		{"the first ban runs", 59, ""},
		{"second", 60, "j#2 5m0s in j "},
		{"the second runs as long as its step says", 60 + 299, ""},
		{"third", 60 + 300, "j#3 1h0m0s in j "},
		{"fourth: the last step repeats", 4000, "j#4 1h0m0s in j "},
		{"remembered from the latest offence", 4000 + 7199, "j#5 1h0m0s in j "},
		{"forgotten", 4000 + 7199 + 7200, "j#1 1m0s in j "},
	} {
		if got := visit(e, l, "203.0.113.5", tt.sec, "/j"); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.why, got, tt.want)
		}
	}
}

func TestHistories(t *testing.T) {
	own := trap(t, "b", time.Minute, time.Hour)
	own.Remember = 10 * time.Minute
	watch := trap(t, "w", time.Minute, time.Hour)
	watch.Observe = true
	jails := []Jail{trap(t, "a", time.Minute, time.Hour), own, watch}
	deny := &Deny{From: pfx("203.0.113.9/32"), Ban: bans(time.Minute, time.Hour)}
	type step struct {
		sec        int
		path, want string
	}
	for _, tt := range []struct {
		name   string
		shared bool
		client string
		steps  []step
	}{
		{"each jail its own", false, "203.0.113.5", []step{
			{0, "/a", "a#1 1m0s in a "},
			{100, "/b", "b#1 1m0s in b "},
			{200, "/a", "a#2 1h0m0s in a "},
		}},
		{"forgotten each at its own time", false, "203.0.113.5", []step{
			{0, "/a", "a#1 1m0s in a "},
			{60, "/b", "b#1 1m0s in b "},
			{900, "/b", "b#1 1m0s in b "},
			{960, "/a", "a#2 1h0m0s in a "},
		}},
		{"shared by those that enforce", true, "203.0.113.5", []step{
			{0, "/w", "w#1 1m0s in (observed) "},
			{1, "/a", "a#1 1m0s in (shared) "},
			{100, "/b", "b#2 1h0m0s in (shared) "},
			{3701, "/w", "w#2 1h0m0s in (observed) "},
			{3702, "/a", "a#3 1h0m0s in (shared) "},
		}},
		{"a jail's own remember is not asked where it is shared", true, "203.0.113.5", []step{
			{0, "/b", "b#1 1m0s in (shared) "},
			{900, "/b", "b#2 1h0m0s in (shared) "},
		}},
		{"denials climb as well", false, "203.0.113.9", []step{
			{0, "/", "deny#1 1m0s in deny "},
			{60, "/", "deny#2 1h0m0s in deny "},
		}},
		{"denials share as well", true, "203.0.113.9", []step{
			{0, "/", "deny#1 1m0s in (shared) "},
			{60, "/", "deny#2 1h0m0s in (shared) "},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := NewEngine(Options{Jails: jails, Deny: deny, SharedHistory: tt.shared, Remember: 2 * time.Hour})
			l := nginxLog(t, e)
			for _, s := range tt.steps {
				if got := visit(e, l, tt.client, s.sec, s.path); got != s.want {
					t.Errorf("%s at %d: got %q, want %q", s.path, s.sec, got, s.want)
				}
			}
		})
	}
}

func TestRemember(t *testing.T) {
	j := trap(t, "j", time.Minute)
	j.Remember = time.Hour
	jails := []Jail{j, trap(t, "k", time.Minute)}
	deny := &Deny{Ban: bans(time.Minute), Remember: 2 * time.Hour}
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "1h0m0s 720h0m0s 2h0m0s 720h0m0s"},
		{Options{Remember: 3 * time.Hour}, "1h0m0s 3h0m0s 2h0m0s 3h0m0s"},
		{Options{Remember: 3 * time.Hour, SharedHistory: true}, "3h0m0s 3h0m0s 3h0m0s 3h0m0s"},
	} {
		tt.o.Jails, tt.o.Deny = jails, deny
		e := NewEngine(tt.o)
		if got := fmt.Sprint(e.Remember("j"), e.Remember("k"), e.Remember(DenyName), e.Remember("gone")); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// A restart does not take anybody down the ladder, nor keep what is forgotten.
func TestRestoredOffencesGoOn(t *testing.T) {
	j := trap(t, "j", time.Minute, time.Hour, 24*time.Hour)
	j.Remember = time.Hour
	e := NewEngine(Options{Jails: []Jail{j}})
	l := nginxLog(t, e)
	for _, o := range []struct {
		client string
		last   int
	}{{"203.0.113.5", 0}, {"203.0.113.6", -3600}} {
		e.RestoreOffence("j", netip.MustParsePrefix(o.client+"/32"), 2, time.Unix(0, second(o.last)))
	}
	if got, want := visit(e, l, "203.0.113.5", 10, "/j"), "j#3 24h0m0s in j "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := visit(e, l, "203.0.113.6", 10, "/j"), "j#1 1m0s in j "; got != want {
		t.Errorf("after an hour: got %q, want %q", got, want)
	}
}

// What the guard refuses is no offence.
func TestRefusedIsNoOffence(t *testing.T) {
	g := fakeGuard{"203.0.113.5/32": "own address"}
	e := NewEngine(Options{Jails: []Jail{trap(t, "j", time.Minute, time.Hour)}, Guard: g})
	l := nginxLog(t, e)
	for sec := range 3 {
		if got, want := visit(e, l, "203.0.113.5", sec, "/j"), "j#0 1m0s in j "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	delete(g, "203.0.113.5/32")
	if got, want := visit(e, l, "203.0.113.5", 4, "/j"), "j#1 1m0s in j "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
