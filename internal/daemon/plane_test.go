package daemon

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// atEdge has two jails whose clients come directly or through a proxy: one with an
// edge and the kernel, one with the edge alone.
const atEdge = `trusted_proxies = ["198.51.100.1"]
[logs.site]
files = "/var/log/site.log"
format = "nginx"
[jails.web]
limit = 0
window = "60s"
ban = "1h"
where = { path = "/" }
actions = ["firewall", "edge"]
[jails.other]
limit = 0
window = "60s"
ban = "1h"
where = { path = "/other" }
actions = ["edge", "say"]
[actions.firewall]
type = "nftables"
[actions.say]
type = "log"
[actions.edge]
type = "cloudflare"
account = "0a0b0c0d0e0f00112233445566778899"
token_file = "/etc/tailban/token"
`

// from is a request of a client, directly or through the proxy.
func from(client string, direct bool, path string, at time.Time) string {
	l, header := line("198.51.100.1", at), client
	if direct {
		l, header = line(client, at), "-"
	}
	l = strings.Replace(l, "GET / ", "GET "+path+" ", 1)
	return strings.TrimSuffix(l, "\n") + ` "` + header + "\"\n"
}

func TestPlanes(t *testing.T) {
	for _, c := range []struct {
		name   string
		direct bool
		path   string
		want   []string // actions that ban
	}{
		{"through the proxy", false, "/", []string{"edge", "firewall"}},
		{"directly", true, "/", []string{"firewall"}},
		{"directly, and nothing else would ban", true, "/other", []string{"edge", "say"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, start{config: atEdge, actions: []string{"firewall", "edge", "say"}})
			r.batch(r.lines(from("192.0.2.1", c.direct, c.path, r.now)), r.now)
			if got := r.banning("192.0.2.1/32"); !slices.Equal(got, c.want) {
				t.Fatalf("banned by %v, want %v", got, c.want)
			}
			bans := r.one().Bans

			// A restart does not change that.
			r = newRig(t, start{config: atEdge, actions: []string{"firewall", "edge", "say"}, loaded: state.Loaded{Bans: bans}})
			if got := r.banning("192.0.2.1/32"); !slices.Equal(got, c.want) {
				t.Errorf("after a restart it is banned by %v, want %v", got, c.want)
			}
		})
	}
}

// banning are the actions that have been told to ban a target.
func (r *rig) banning(target string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.action)), func(name string) bool {
		_, yes := r.action[name].until[pfx(target)]
		return !yes
	})
}

// A client that was banned at the origin goes on through the proxy: the ban follows
// it there, once, until the same time.
func TestBanFollowsToTheEdge(t *testing.T) {
	r := newRig(t, start{config: atEdge, actions: []string{"firewall", "edge", "say"}})
	r.batch(r.lines(from("192.0.2.1", true, "/", r.now)), r.now)
	until := r.action["firewall"].until[pfx("192.0.2.1/32")]
	r.took()
	for range 3 {
		r.now = r.now.Add(time.Minute)
		r.batch(r.lines(from("192.0.2.1", false, "/else", r.now)), r.now)
	}
	if got := r.action["edge"].until[pfx("192.0.2.1/32")]; !got.Equal(until) || until.IsZero() {
		t.Errorf("at the edge until %v, want %v", got, until)
	}
	if n := r.action["edge"].sets; n != 1 {
		t.Errorf("the edge was told %d times, want once", n)
	}
	stored := 0
	for _, u := range r.took() {
		for _, b := range u.Bans {
			stored++
			if o := b.Owners[0]; !slices.Equal(o.Actions, []string{"firewall", "edge"}) || o.Plane != "forwarded" || o.Offence != 1 {
				t.Errorf("stored is %+v", o)
			}
		}
	}
	if stored != 1 {
		t.Errorf("the ban was stored %d times, want once", stored)
	}

	// Other requests that come directly change nothing.
	r.batch(r.lines(from("192.0.2.2", true, "/", r.now)), r.now)
	r.now = r.now.Add(time.Minute)
	r.batch(r.lines(from("192.0.2.2", true, "/", r.now)), r.now)
	if got := r.banning("192.0.2.2/32"); !slices.Equal(got, []string{"firewall"}) {
		t.Errorf("who comes directly only is banned by %v", got)
	}
}

// A jail with an edge is not told that its bans stop nobody.
func TestEdgeIsNoProblem(t *testing.T) {
	r := newRig(t, start{config: atEdge, actions: []string{"firewall", "edge", "say"}})
	for _, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"} {
		r.batch(r.lines(from(client, false, "/", r.now)), r.now)
	}
	r.upkeep(r.now.Add(forwardedAfter))
	if n := strings.Count(r.journal.String(), "behind a proxy"); n != 0 {
		t.Errorf("it is said %d times that the bans stop nobody:\n%s", n, r.journal)
	}
}
