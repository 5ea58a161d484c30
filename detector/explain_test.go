package detector

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Fill counts what a brute force counts, at any time, and changes nothing:
// neither a verdict after it nor what is evicted next.
func TestFillEqualsBruteForce(t *testing.T) {
	targets := pfx("203.0.113.5/32", "203.0.113.6/32", "2001:db8::/64")
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Jails: []Jail{
			{Name: "long", Logs: []string{"l"}, Limit: 500, Window: 30 * time.Second, Ban: bans(time.Minute), Overrides: []Override{{pfx("203.0.113.6/32")[0], 700}}},
			{Name: "errors", Logs: []string{"l"}, Limit: 500, Window: 50 * time.Second, Ban: bans(time.Minute), Where: Where{Match: Conditions{Status: []StatusRange{{400, 499}}}}},
		}}
		e := NewEngine(o)
		l := nginxLog(t, e)
		type event struct {
			target netip.Prefix
			status int
			sec    int
		}
		var events []event
		sec := 100
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			sec += rapid.IntRange(0, 4).Draw(t, "step")
			ev := event{rapid.SampledFrom(targets).Draw(t, "target"), rapid.SampledFrom([]int{200, 404}).Draw(t, "status"), sec - rapid.IntRange(0, 20).Draw(t, "late by")}
			e.Line(l, []byte(line(ev.target.Addr().String(), ev.sec, "GET / HTTP/1.1", ev.status, "x", "-")), false, Line{}, 0)
			events = append(events, ev)
		}
		touched := func() (n int) {
			for i := range e.windows.keys() {
				if e.windows.slot(i).touched {
					n++
				}
			}
			return n
		}
		e.Forget(0) // takes all touches off
		now := sec + rapid.IntRange(-15, 60).Draw(t, "now")
		for _, target := range targets {
			var want []Fill
			for _, j := range o.Jails {
				f := Fill{Jail: j.Name, Limit: 500, Window: j.Window}
				if target == targets[1] && j.Name == "long" {
					f.Limit = 700
				}
				var secs []int
				for _, ev := range events {
					if ev.target == target && (j.Name == "long" || ev.status == 404) && ev.sec <= now && ev.sec > now-int(j.Window/time.Second) {
						secs = append(secs, ev.sec)
					}
				}
				if f.Count = len(secs); f.Count > 0 {
					f.First, f.Last = second(slices.Min(secs)), second(slices.Max(secs))
				}
				want = append(want, f)
			}
			if got := e.Fill(target, second(now)); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s at %d: got %v, want %v", target, now, got, want)
			}
		}
		if n := touched(); n > 0 {
			t.Fatalf("%d windows were touched", n)
		}
	})
}

func TestOffencesOfATarget(t *testing.T) {
	a := trap(t, "a", time.Second)
	a.Remember = time.Hour
	e := NewEngine(Options{Jails: []Jail{a, trap(t, "b", time.Second)}, Remember: 2 * time.Hour})
	l := nginxLog(t, e)
	target := pfx("203.0.113.5/32")[0]
	e.RestoreOffence("gone", target, 4, time.Unix(0, second(5)))
	e.RestoreOffence("else", pfx("203.0.113.6/32")[0], 4, time.Unix(0, second(5)))
	visit(e, l, "203.0.113.5", 10, "/a")
	visit(e, l, "203.0.113.5", 20, "/a")
	e.Hold("b", true)
	visit(e, l, "203.0.113.5", 30, "/b")
	hour := int64(time.Hour)
	want := []Offences{
		{"a", false, 2, second(20), second(20) + hour},
		{"b", true, 1, second(30), second(30) + 2*hour},
		{"gone", false, 4, second(5), second(5) + 2*hour},
	}
	if got := e.Offences(target); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	e.Forget(second(30) + 3*hour)
	if got := e.Offences(target); len(got) != 0 || len(e.histories) != 0 {
		t.Errorf("after they were forgotten: %v, of %v", got, e.histories)
	}
}
