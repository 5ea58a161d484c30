package daemon

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
	"github.com/tailban/tailban/state"
)

// ruleConfig is edgeConfig with access rules of the account.
func ruleConfig(url, token string) string {
	text := strings.Replace(edgeConfig(url, token), "create_list = true\n", "mode = \"access_rules\"\n", 1)
	text, _, _ = strings.Cut(text, "zones = ")
	return text
}

const tookOver = "took over bans that are in force and not in the state"

// The state file is deleted while Cloudflare has bans. They stay, with their end, over
// that start and the next, as they would in the kernel; what is over there is removed.
func TestBansAtTheEdgeWithoutState(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]func(url, token string) string{"list": edgeConfig, "access rules": ruleConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			double := fake.New(fake.Options{Delay: time.Millisecond})
			server := httptest.NewServer(double.Handler())
			t.Cleanup(server.Close)
			s := newSite(t, t.TempDir())
			token := filepath.Join(s.dir, "token")
			check(t, os.WriteFile(token, []byte(fake.Secret), 0o600))
			text := s.config(config(server.URL, token))
			there := func() map[string]string { // ids by address
				m := map[string]string{}
				for _, it := range double.Items("tailban") {
					m[it.IP] = it.ID + " " + it.Comment
				}
				for _, r := range double.AccessRules(fake.AccountID) {
					m[r.Value] = r.ID + " " + r.Description
				}
				return m
			}
			l := newLiveWith(t, s, text, nil, nil)
			s.requests("203.0.113.66", 3)
			wait(t, "the ban to be there", func() bool { return there()["203.0.113.66"] != "" })
			l.stop()
			before := there()["203.0.113.66"]
			check(t, os.RemoveAll(s.state))
			check(t, os.Truncate(s.log, 0)) // or its lines would ban anew
			over := "tailban/web-1 until=" + time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
			if name == "list" {
				check(t, double.AddForeignItems("tailban", fake.Item{IP: "203.0.113.67", Comment: over}))
			} else {
				_, err := double.AddForeignAccessRule(fake.AccountID, fake.Rule{Action: "block", Target: "ip", Value: "203.0.113.67", Description: over})
				check(t, err)
			}

			for n := range 2 {
				l = newLiveWith(t, s, text, nil, nil)
				wait(t, "the bans to be compared", func() bool { return len(l.journal.said("bans compared with what the action held")) == 1 })
				l.journal.want(t, 1-n, tookOver, "action", "edge", "bans", 1)
				wait(t, "what is over to go", func() bool { return there()["203.0.113.67"] == "" })
				if got := there()["203.0.113.66"]; got != before {
					t.Errorf("it is %q there, was %q", got, before)
				}
				x := l.explain("203.0.113.66")
				if len(x.Bans) != 1 || x.Bans[0].Owners[0].Jail != adoptedJail {
					t.Errorf("its bans are %+v", x.Bans)
				}
				l.stop()
			}
		})
	}
}

// What an action at an edge holds is taken over by what else is known of it.
func TestWhatIsTakenOverAtAnEdge(t *testing.T) {
	now := time.Now()
	waits := held("192.0.2.5/32", now, time.Hour, "web", "edge")
	waits.Waiting = true
	moved := held("192.0.2.6/32", now, time.Hour, "other", "edge") // its jail does not name the edge any longer
	elsewhere := held("192.0.2.2/32", now, time.Hour, adoptedJail, "web")
	r := newRig(t, start{
		config:  strings.ReplaceAll(byName, `"web"]`, `"web", "edge"]`) + "\n[actions.edge]\ntype = \"cloudflare\"\naccount = \"0a0b0c0d0e0f00112233445566778899\"\ntoken_file = \"/t\"\n",
		actions: []string{"web", "edge"},
		loaded: state.Loaded{
			Bans: []state.Ban{held("192.0.2.1/32", now, time.Hour, "web", "edge"), elsewhere, waits, moved},
			Pardons: []state.Pardon{{
				Target: pfx("192.0.2.4/32"), Since: now, Before: now, Keep: now.Add(time.Hour),
			}},
		},
	})
	var entries []actions.Entry
	for i := range 5 {
		entries = append(entries, actions.Entry{Target: pfx(fmt.Sprintf("192.0.2.%d/32", i+1)), Left: 2 * time.Hour})
	}
	entries = append(entries, actions.Entry{Target: pfx("192.0.2.9/32"), Left: time.Second}) // ends at any moment
	entries = append(entries, actions.Entry{Target: pfx("192.0.2.6/32"), Left: 2 * time.Hour})
	entries = append(entries, actions.Entry{Target: pfx("192.0.2.8/32"), Left: time.Until(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))})
	if n := r.engine.adopt("edge", entries, now); n != 2 {
		t.Errorf("%d were taken over, want that of the kernel's as well, and the one that nobody knows", n)
	}
	for target, want := range map[string]time.Duration{
		"192.0.2.1/32": time.Hour, "192.0.2.2/32": 2 * time.Hour, "192.0.2.3/32": 2 * time.Hour, "192.0.2.4/32": 0, "192.0.2.5/32": time.Hour, "192.0.2.6/32": 0, "192.0.2.8/32": 0, "192.0.2.9/32": 0,
	} {
		until, banned := r.action["edge"].until[pfx(target)]
		if banned != (want > 0) || banned && until.Sub(now.Add(want)).Abs() > time.Second {
			t.Errorf("%s is banned until %v, want for %v", target, until, want)
		}
	}
	if got := r.action["web"].until[pfx("192.0.2.2/32")]; got.Sub(now.Add(time.Hour)).Abs() > time.Second {
		t.Errorf("what the kernel had is banned there until %v", got)
	}
}
