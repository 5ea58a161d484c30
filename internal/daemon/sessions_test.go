package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/guard"
)

// logind has a session of sshd's in a folder, held by this process.
func logind(t *testing.T, dir, name, from string) {
	t.Helper()
	text := fmt.Sprintf("UID=1000\nSTATE=active\nREMOTE=1\nCLASS=user\nREMOTE_HOST=%s\nSERVICE=sshd\nLEADER=%d\n", from, os.Getpid())
	path := filepath.Join(dir, name)
	check(t, os.WriteFile(path+".new", []byte(text), 0o644))
	check(t, os.Rename(path+".new", path))
}

// Who logs in by SSH is let go, and not banned while he is there; unless the
// configuration doesn't want that.
func TestSessionLiftsABan(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	sessions := filepath.Join(s.dir, "sessions")
	check(t, os.Mkdir(sessions, 0o755))
	l := newLive(t, s, s.config(enforced), func(o *Options) { o.Paths = guard.Paths{Sessions: sessions} })
	l.bannedBy("203.0.113.1", "banned")
	l.bannedBy("203.0.113.2", "banned")
	wait(t, "the firewall", func() bool { return l.firewall.holds("203.0.113.1/32") && l.firewall.holds("203.0.113.2/32") })
	logind(t, sessions, "1", "203.0.113.1")
	wait(t, "the first to be let go", func() bool { return !l.firewall.holds("203.0.113.1/32") })
	wait(t, "that to be said", func() bool { return len(l.journal.said("ban lifted: its target is protected now")) > 0 }) // behind it
	l.journal.want(t, 1, "ban lifted: its target is protected now", "target", "203.0.113.1/32", "reason", "SSH session")
	l.bannedBy("203.0.113.1", "not banned: protected")
	if !l.firewall.holds("203.0.113.2/32") {
		t.Error("another ban was lifted, too")
	}

	got := l.reloaded("protect_sessions = false\n" + s.config(enforced))
	if strings.Join(got.Changes, "") != "protect_sessions true → false" {
		t.Errorf("changes: %q", got.Changes)
	}
	s.requests("203.0.113.1", 3)
	wait(t, "the second ban", func() bool { return l.firewall.holds("203.0.113.1/32") })
	l.reloaded(s.config(enforced))
	wait(t, "the first to be let go again", func() bool { return !l.firewall.holds("203.0.113.1/32") })
	l.stop()
}

// Sessions and name servers there are at the start are known before bans are
// taken up again.
func TestSessionsAtTheStart(t *testing.T) {
	dir := t.TempDir()
	logind(t, dir, "1", "203.0.113.1")
	resolv := filepath.Join(dir, "resolv.conf")
	check(t, os.WriteFile(resolv, []byte("nameserver 203.0.113.53\n"), 0o644))
	for text, want := range map[string]string{"": "SSH session", "protect_sessions = false\n": ""} {
		d := newDaemon(Options{
			Config: parse(t, text+web), Log: slog.New(slog.DiscardHandler),
			Paths: guard.Paths{Sessions: dir, Resolv: []string{resolv}},
		})
		check(t, d.makeActions(context.Background()))
		for addr, want := range map[string]string{"203.0.113.1": want, "203.0.113.53": "resolver", "203.0.113.2": ""} {
			if reason, _ := d.guard.Protected(netip.PrefixFrom(netip.MustParseAddr(addr), 32)); reason != want {
				t.Errorf("%q: %s: %q, want %q", text, addr, reason, want)
			}
		}
	}
}
