package daemon

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// edgeConfig bans at a double of Cloudflare, that is at url, by a token in a file.
func edgeConfig(url, token string) string {
	return fmt.Sprintf(`peer = "rewritten"
[jails.web]
limit = 2
window = "60s"
ban = "1h"
[actions.edge]
type = "cloudflare"
account = %q
token_file = %q
api_base = %q
instance = "web-1"
create_list = true
zones = [%q]
`, fake.AccountID, token, url+"/client/v4", fake.ZoneID)
}

// TestDaemonAtTheEdge is the whole way: lines, a ban in the list, what is told of it,
// and a reload without the action, which takes it out again and nothing else.
func TestDaemonAtTheEdge(t *testing.T) {
	t.Parallel()
	double := fake.New(fake.Options{Delay: time.Millisecond})
	server := httptest.NewServer(double.Handler())
	t.Cleanup(server.Close)
	s := newSite(t, t.TempDir())
	token := filepath.Join(s.dir, "token")
	check(t, os.WriteFile(token, []byte(fake.Secret+"\n"), 0o600))
	check(t, double.AddForeignItems("tailban", fake.Item{IP: "203.0.113.9", Comment: "by hand"}))
	l := newLiveWith(t, s, s.config(edgeConfig(server.URL, token)), nil, nil)
	s.write(line("203.0.113.66", time.Now()), line("203.0.113.66", time.Now()), line("203.0.113.66", time.Now()))
	items := func() (list []string) {
		for _, it := range double.Items("tailban") {
			comment, _, _ := strings.Cut(it.Comment, " until=")
			list = append(list, it.IP+" "+comment)
		}
		return list
	}
	wait(t, "the ban to be in the list", func() bool { return strings.Contains(fmt.Sprint(items()), "203.0.113.66 tailban/web-1") })
	wait(t, "the action to know", func() bool {
		for _, b := range l.explain("203.0.113.66").Bans {
			for _, a := range b.Actions {
				if a.Action == "edge" && a.Held != nil && *a.Held && a.Packets == nil {
					return true
				}
			}
		}
		return false
	})
	banned := netip.MustParseAddr("203.0.113.66")
	wait(t, "the rule to block it", func() bool { return double.Blocked(banned, time.Now()) })
	var st *control.Status
	wait(t, "the rule to be known", func() bool {
		st = l.status()
		return !st.Actions[0].Edge.Leases[0].Deadline.IsZero()
	})
	if len(st.Actions) != 1 || st.Actions[0].Edge == nil || st.Actions[0].Failing {
		t.Fatalf("actions are %+v", st.Actions)
	}
	if e := st.Actions[0].Edge; e.Items != 1 || e.Others != 1 || e.Unused || e.Writes != 1 || e.Requests == 0 {
		t.Errorf("the status is %+v", e)
	}
	budgets := 0
	for _, b := range st.Budgets {
		if strings.HasPrefix(b.Name, "edge: ") && b.Limit > 0 && b.Used >= 0 && b.Used < b.Limit {
			budgets++
		}
	}
	if budgets != 3 {
		t.Errorf("budgets are %+v", st.Budgets)
	}
	s.write(line("203.0.113.66", time.Now().Add(time.Minute)))
	wait(t, "a reason why it still comes", func() bool {
		return strings.Contains(l.explain("203.0.113.66").Through, "the list tailban has it: does a rule of this site block what is in it?")
	})
	if strings.Contains(l.journal.String(), fake.Secret) {
		t.Error("the token is in the log")
	}

	l.reload("peer = \"rewritten\"\n" + strings.TrimPrefix(logOnly, "\n"))
	wait(t, "the list to be as before", func() bool { return fmt.Sprint(items()) == "[203.0.113.9 by hand]" })
	wait(t, "the rule to be gone", func() bool { return len(double.Rules(fake.ZoneID)) == 0 })
}

// TestInstanceRenamed is that a reload that gives this host another name at the edge, or
// none, which is the host's, keeps its bans and the rule there.
func TestInstanceRenamed(t *testing.T) {
	t.Parallel()
	double := fake.New(fake.Options{Delay: time.Millisecond})
	server := httptest.NewServer(double.Handler())
	t.Cleanup(server.Close)
	s := newSite(t, t.TempDir())
	token := filepath.Join(s.dir, "token")
	check(t, os.WriteFile(token, []byte(fake.Secret+"\n"), 0o600))
	named := func(instance string) string {
		return strings.Replace(edgeConfig(server.URL, token), `instance = "web-1"`, instance, 1)
	}
	l := newLiveWith(t, s, s.config(named(`instance = "here"`)), nil, nil) // which is the host's name
	s.write(line("203.0.113.66", time.Now()), line("203.0.113.66", time.Now()), line("203.0.113.66", time.Now()))
	banned := netip.MustParseAddr("203.0.113.66")
	wait(t, "the rule to block it", func() bool { return double.Blocked(banned, time.Now()) })
	writes := func() (n int) {
		log, _ := double.Requests()
		for _, r := range log {
			if r.ItemChanges > 0 {
				n++
			}
		}
		return n
	}
	before := writes()
	l.reload(named(""))
	wait(t, "what was there to be looked after", func() bool { return len(l.d.leavers()) == 0 })
	if !double.Blocked(banned, time.Now()) || writes() > before {
		t.Error("the same name by another way has the ban taken out")
	}
	l.reload(named(`instance = "web-2"`))
	wait(t, "the ban in the new name", func() bool {
		list := double.Items("tailban")
		return len(list) == 1 && strings.HasPrefix(list[0].Comment, "tailban/web-2 ")
	})
	wait(t, "the rule to block it again", func() bool { return double.Blocked(banned, time.Now()) })
}
