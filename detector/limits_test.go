package detector

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestOverrides(t *testing.T) {
	e := NewEngine(Options{Jails: []Jail{{
		Name: "j", Logs: []string{"l"}, Limit: 3, Window: time.Minute, Ban: bans(time.Hour),
		Overrides: []Override{
			{pfx("203.0.113.0/24")[0], 5}, {pfx("203.0.113.7/32")[0], 1}, {pfx("203.0.113.128/25")[0], 3},
			{pfx("198.51.100.0/24")[0], 0}, {pfx("2001:db8::/32")[0], 4}, {pfx("2001:db8:0:1::/64")[0], 2},
		},
	}}})
	l := nginxLog(t, e)
	for client, want := range map[string]int{
		"192.0.2.1":          3, // none holds it
		"203.0.113.1":        5,
		"203.0.113.7":        1, // the longest counts, whatever it is
		"203.0.113.200":      3,
		"198.51.100.1":       0,
		"2001:db8:5::1":      4,
		"2001:db8:0:1::9":    2,
		"2001:db9::1":        3,
		"::ffff:203.0.113.2": 5,
	} {
		n := 0
		for d := ""; d == "" && n < 10; n++ {
			d = visit(e, l, client, 0, "/")
		}
		if n != want+1 {
			t.Errorf("%s was banned at request %d, want %d", client, n, want+1)
		}
	}
}

// A /64 inside a network with a limit of its own counts as one, also where its
// addresses are counted one by one.
func TestOverrideOfSharedNetwork(t *testing.T) {
	e := NewEngine(Options{
		Guard: fakeGuard{"2001:db8:0:2::/64": "shared"},
		Jails: []Jail{{Name: "j", Logs: []string{"l"}, Limit: 9, Window: time.Minute, Ban: bans(time.Hour),
			Overrides: []Override{{pfx("2001:db8::/48")[0], 1}}}},
	})
	l := nginxLog(t, e)
	var got []string
	for _, client := range []string{"2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:2::1", "2001:db8:0:2::2", "2001:db8:0:2::1"} {
		for _, d := range e.Line(l, []byte(line(client, 0, "GET / HTTP/1.1", 200, "x", "-")), false, Line{}, 0).Decisions {
			got = append(got, fmt.Sprintf("%s>%d", d.Target, d.Limit))
		}
	}
	if want := "2001:db8:0:1::/64>1 2001:db8:0:2::1/128>1"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestSetAllow(t *testing.T) {
	e := NewEngine(Options{Allow: pfx("203.0.113.1/32"), Jails: []Jail{trap(t, "j", time.Minute)}})
	l := nginxLog(t, e)
	allowed := func(client string) bool {
		return e.Line(l, []byte(line(client, 0, "GET /x HTTP/1.1", 200, "x", "-")), false, Line{}, 0).Step == StepAllowed
	}
	if !allowed("203.0.113.1") || allowed("203.0.113.2") {
		t.Error("what the options allow is not what is allowed")
	}
	e.SetAllow(pfx("203.0.113.2/32"))
	if allowed("203.0.113.1") || !allowed("203.0.113.2") {
		t.Error("what was set did not take the place of what was there")
	}
	e.SetAllow(nil)
	if allowed("203.0.113.2") {
		t.Error("somebody is allowed after nobody was set")
	}
}
