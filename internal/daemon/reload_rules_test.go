package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
)

// reloaded puts another configuration into the file and has it read.
func (l *live) reloaded(text string) *control.ReloadResult {
	l.siteFiles.Helper()
	l.rewrite(text)
	r, err := l.client.Reload(context.Background())
	check(l.siteFiles, err)
	return r
}

// bannedBy has a client send three requests, and waits for what becomes of it.
func (l *live) bannedBy(client, message string) {
	l.siteFiles.Helper()
	l.requests(client, 3)
	wait(l.siteFiles, message+" "+client, func() bool { return len(l.journal.said(message, "client", client)) == 1 })
}

const observedNow = "would be banned (observe)"

// A jail that begins to observe keeps its bans in force, and one that begins to
// enforce takes nothing of what it observed for a ban.
func TestReloadOfAMode(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	const other = `
[jails.other]
limit = 1000
window = "60s"
ban = "1h"
`
	enforces := s.config(enforced + other)
	observes := s.config(strings.Replace(enforced, "[jails.web]", "[jails.web]\nmode = \"observe\"", 1) + other)
	l := newLive(t, s, enforces, nil)
	l.bannedBy("203.0.113.1", "banned")
	l.reloaded(observes)
	l.bannedBy("203.0.113.2", observedNow)
	if mode := l.status().Jails[0].Mode; mode != control.ModeObserve {
		t.Errorf("mode %s", mode)
	}
	if !l.firewall.holds("203.0.113.1/32") || l.firewall.holds("203.0.113.2/32") {
		t.Errorf("the firewall holds %v", l.firewall.bans)
	}
	l.reloaded(enforces)
	l.bannedBy("203.0.113.3", "banned")
	wait(t, "the firewall", func() bool { return l.firewall.holds("203.0.113.3/32") })
	if !l.firewall.holds("203.0.113.1/32") || l.firewall.holds("203.0.113.2/32") {
		t.Errorf("the firewall holds %v", l.firewall.bans)
	}
	s.requests("203.0.113.2", 3) // observed, until that is over
	l.bannedBy("203.0.113.4", "banned")
	l.journal.want(t, 0, "banned", "client", "203.0.113.2")
	l.journal.want(t, 1, "banned", "client", "203.0.113.1")
	l.stop()
}

// A jail that is gone bans nobody any more; whom it banned stays banned, can be
// listed by its name, and let go by it.
func TestReloadWithoutAJail(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	l.bannedBy("203.0.113.1", "banned")
	l.bannedBy("203.0.113.2", "banned")
	renamed := strings.NewReplacer("jails.web", "jails.site", "limit = 2", "limit = 4").Replace(enforced)
	if got := l.reloaded(s.config(renamed)); strings.Join(got.Changes, ", ") != "jails.site: new, jails.web: gone" {
		t.Errorf("changes: %q", got.Changes)
	}
	s.requests("203.0.113.3", 5)
	l.waitBanned("203.0.113.3")
	l.journal.want(t, 1, "banned", "client", "203.0.113.3", "jail", "site", "count", 5)
	wait(t, "the firewall", func() bool { return l.firewall.holds("203.0.113.3/32") })
	bans, err := l.client.Bans(t.Context(), control.BansQuery{Jail: "web"})
	check(t, err)
	if bans.Total != 2 || bans.Bans[0].Observed || !l.firewall.holds("203.0.113.1/32") {
		t.Errorf("of the jail that is gone: %+v", bans)
	}
	got, err := l.client.Unban(t.Context(), control.UnbanRequest{Jail: "web"})
	check(t, err)
	if got.Lifted != 2 {
		t.Errorf("lifted %+v", got)
	}
	l.stop()
}

// [deny] comes and goes.
func TestReloadOfDeny(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	bad := func(client string) { s.requests(client, 1) }
	bad("198.51.100.1")
	l.counted(1)
	l.journal.want(t, 0, "banned")
	if got := l.reloaded(s.config(enforced + "[deny]\nfrom = [\"198.51.100.0/24\"]\nban = \"1d\"\n")); strings.Join(got.Changes, "") != "jails.deny: new" {
		t.Errorf("changes: %q", got.Changes)
	}
	bad("198.51.100.1")
	l.waitBanned("198.51.100.1")
	wait(t, "the firewall", func() bool { return l.firewall.holds("198.51.100.1/32") })
	l.reloaded(s.config(enforced))
	bad("198.51.100.2")
	l.counted(3)
	l.journal.want(t, 0, "banned", "client", "198.51.100.2")
	if !l.firewall.holds("198.51.100.1/32") {
		t.Error("the ban has gone with [deny]")
	}
	l.stop()
}

// With fewer bans allowed those that end soonest go, at the firewall too.
func TestReloadOfMaxBans(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, "max_bans = 3\n"+s.config(enforced), nil)
	for i := range 3 {
		l.bannedBy(fmt.Sprintf("203.0.113.%d", i), "banned")
	}
	wait(t, "the firewall", func() bool { return l.firewall.holds("203.0.113.2/32") })
	l.reloaded("max_bans = 1\n" + s.config(enforced))
	wait(t, "the firewall", func() bool { return !l.firewall.holds("203.0.113.0/32") && !l.firewall.holds("203.0.113.1/32") })
	if st := l.status(); st.Bans != 1 || !l.firewall.holds("203.0.113.2/32") {
		t.Errorf("%d bans, the firewall holds %v, want the latest", st.Bans, l.firewall.bans)
	}
	l.stop()
	if bans := s.stored().Bans; len(bans) != 1 {
		t.Errorf("stored: %+v", bans)
	}
}

// Who is allowed by the configuration changes: addresses, and host names.
func TestReloadOfAllow(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	addresses := map[string]string{"a.example": "203.0.113.1", "b.example": "203.0.113.2"}
	l := newLive(t, s, `allow = ["a.example", "203.0.113.4"]`+"\n"+s.config(enforced), func(o *Options) {
		o.Lookup = func(_ context.Context, name string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(addresses[name])}, nil
		}
	})
	is := func(address string) bool {
		_, yes := l.d.allow.allowed(netip.MustParseAddr(address))
		return yes
	}
	wait(t, "the first name", func() bool { return is("203.0.113.1") })
	l.bannedBy("203.0.113.2", "banned")
	l.bannedBy("203.0.113.3", "banned")
	s.requests("203.0.113.1", 3)
	s.requests("203.0.113.4", 3)
	l.counted(12)
	got := l.reloaded(`allow = ["b.example", "203.0.113.3"]` + "\n" + s.config(enforced))
	if strings.Join(got.Changes, "") != "allow [203.0.113.4/32] [a.example] → [203.0.113.3/32] [b.example]" {
		t.Errorf("changes: %q", got.Changes)
	}
	wait(t, "the second name", func() bool { return is("203.0.113.2") })
	wait(t, "both to be let go", func() bool { return !l.firewall.holds("203.0.113.2/32") && !l.firewall.holds("203.0.113.3/32") })
	if is("203.0.113.1") || is("203.0.113.4") {
		t.Error("who is allowed no more still is")
	}
	s.requests("203.0.113.2", 3)
	s.requests("203.0.113.3", 3)
	l.bannedBy("203.0.113.1", "banned")
	l.bannedBy("203.0.113.4", "banned")
	l.journal.want(t, 1, "banned", "client", "203.0.113.2")
	l.journal.want(t, 1, "banned", "client", "203.0.113.3")
	l.stop()
}

// A list that can't be read is a problem like any other, told with its line.
func TestReloadOfABadList(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	path := filepath.Join(s.dir, "office.txt")
	text := fmt.Sprintf("allow = [\"file:%s\"]\n", path) + s.config(enforced)
	check(t, os.WriteFile(path, []byte("203.0.113.1\n"), 0o600))
	l := newLive(t, s, text, nil)
	check(t, os.WriteFile(path, []byte("203.0.113.2\nnobody\n"), 0o600))
	_, err := l.client.Reload(t.Context())
	refusedAs(t, err, control.CodeConfig, "nothing has changed")
	if e := err.(*control.Error); len(e.Problems) != 1 || !strings.Contains(e.Problems[0], path) || !strings.Contains(e.Problems[0], "nobody") {
		t.Errorf("problems: %q", e.Problems)
	}
	if x := l.explain("203.0.113.1"); x.Conclusion != control.Allowed {
		t.Errorf("who was allowed is %s", x.Conclusion)
	}
	check(t, os.WriteFile(path, []byte("203.0.113.2\n"), 0o600))
	_, err = l.client.Reload(t.Context())
	check(t, err)
	if x := l.explain("203.0.113.2"); x.Conclusion != control.Allowed {
		t.Errorf("of the mended list he is %s", x.Conclusion)
	}
	l.stop()
}

func TestTwoReloadsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	reading, goOn := make(chan struct{}), make(chan struct{})
	l := newLive(t, s, s.config(enforced), func(o *Options) {
		load := o.Load
		o.Load = func() (*config.Config, error) {
			reading <- struct{}{}
			<-goOn
			return load()
		}
	})
	first := make(chan error, 1)
	go func() {
		_, err := l.client.Reload(t.Context())
		first <- err
	}()
	<-reading
	_, err := l.client.Reload(t.Context())
	refusedAs(t, err, control.CodeBusy, "another reload is under way")
	close(goOn)
	check(t, <-first)
	l.stop()
}

// A signal reloads as the command does. What comes of it is in the log.
func TestReloadBySignal(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	hangups := make(chan os.Signal, 1)
	l := newLive(t, s, s.config(enforced), func(o *Options) { o.Reloads = hangups })
	l.rewrite("limits")
	hangups <- syscall.SIGHUP
	wait(t, "the refusal", func() bool {
		return len(l.journal.said("the configuration was not reloaded, the one before goes on")) == 1
	})
	l.rewrite(s.config(strings.Replace(enforced, "limit = 2", "limit = 0", 1)))
	hangups <- syscall.SIGHUP
	wait(t, "the reload", func() bool {
		return len(l.journal.said("configuration reloaded", "changes", "[jails.web: limit 2 → 0]")) == 1
	})
	s.requests("203.0.113.1", 1)
	l.waitBanned("203.0.113.1")
	l.stop()
}

// What only counts after a restart is said, and not taken up halfway.
func TestReloadOfWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), nil)
	text := strings.NewReplacer(s.state, s.state+"-2", s.runtime(), s.runtime()+"-2").Replace(s.config(enforced))
	got := l.reloaded("status_group = \"adm\"\nadmin_group = \"adm\"\n" + text)
	for _, key := range []string{"state_dir", "runtime_dir", "status_group", "admin_group"} {
		if !strings.Contains(strings.Join(got.Restart, "\n"), key+": ") {
			t.Errorf("%s is not said: %q", key, got.Restart)
		}
	}
	if len(got.Restart) != 4 || len(got.Changes) != 0 {
		t.Errorf("got %+v", got)
	}
	l.bannedBy("203.0.113.1", "banned")
	l.stop()
	if bans := s.stored().Bans; len(bans) != 1 {
		t.Errorf("stored where it was: %+v", bans)
	}
}
