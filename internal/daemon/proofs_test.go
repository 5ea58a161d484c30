package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/prove"
)

// byDNS has who calls himself Googlebot prove it by his name.
const byDNS = `
[wanted.search]
agent = "Googlebot"
domains = "googlebot.com"
`

// crawl is n lines of who calls himself Googlebot.
func crawl(client string, n int, at time.Time) string {
	return strings.Repeat(strings.Replace(line(client, at), `"x"`, `"Googlebot/2.1"`, 1), n)
}

func (r *rig) crawls(client string, n int) { r.batch(r.lines(crawl(client, n, r.now)), r.now) }

// told answers the question about a client.
func (r *rig) told(client string, result detector.Result, name string) {
	r.Helper()
	q, ok := r.detect.Question()
	if !ok || q.Client.String() != client {
		r.Fatalf("asked about %v, want %s", q.Client, client)
	}
	a := detector.Answer{Question: q, Result: result, Reason: "its name is another", Until: r.now.Add(time.Hour).UnixNano()}
	if name != "" {
		a.Names, a.Reason = []string{name}, ""
	}
	r.answered(a, r.now)
	r.decideDue(r.now)
}

// A ban waits for the names of who may be wanted: it is dropped, or made with its
// own line as evidence, whatever was read since.
func TestBanWaitsForNames(t *testing.T) {
	for _, tt := range []struct {
		result       detector.Result
		name         string
		banned       int
		after        time.Duration // without an answer
		says, reason string
	}{
		{detector.Proved, "x.googlebot.com", 0, 0, "not banned: its name proves that it is a wanted machine", ""},
		{detector.Disproved, "", 1, 0, "claims to be a wanted machine, and is none", ""},
		{detector.Unknown, "", 1, 0, "names of some who claim to be wanted machines can't be looked up: until they can, those are ordinary clients", "its name is another"},
		{banned: 1, after: detector.MaxPostponement, reason: "its names were not looked up in time"},
	} {
		r := newRig(t, start{config: web + byDNS, actions: []string{"firewall"}})
		r.crawls(one, 2)
		r.journal.want(t, 1, "not banned yet: it may be a wanted machine, and its names are being looked up", "client", one, "decisions", 1)
		r.requests(other)
		r.took()
		if tt.after > 0 {
			r.now = r.now.Add(tt.after - time.Second)
			r.decideDue(r.now)
			r.journal.want(t, 0, "banned")
			r.now = r.now.Add(time.Second)
			r.decideDue(r.now)
		} else {
			r.told(one, tt.result, tt.name)
		}
		r.journal.want(t, tt.banned, "banned", "client", one)
		if tt.reason != "" {
			r.journal.want(t, 1, "banned", "claims", "search", "unproven", tt.reason)
		}
		if tt.says != "" {
			r.journal.want(t, 1, tt.says, "client", one)
		}
		if tt.banned > 0 {
			u := r.one()
			if targets(u) != one+"/32" || u.Bans[0].Owners[0].Sample.Agent != "Googlebot/2.1" || len(u.Offences) != 1 {
				t.Errorf("%+v", u)
			}
			if len(r.action["firewall"].until) != 1 {
				t.Error("the ban is not enforced")
			}
		}
		if wait := r.untilDue(r.now, time.Hour); wait != time.Hour {
			t.Errorf("it looks again in %v", wait)
		}
	}
}

// The timer of the engine is set for the decision that waits.
func TestEngineWakesUpForWhatWaits(t *testing.T) {
	r := newRig(t, start{config: web + byDNS, actions: []string{"firewall"}})
	r.crawls(one, 2)
	if got := r.untilDue(r.now, time.Hour); got != detector.MaxPostponement {
		t.Errorf("in %v, want %v", got, detector.MaxPostponement)
	}
	if got := r.untilDue(r.now.Add(time.Hour), time.Hour); got != 0 {
		t.Errorf("when it is due: in %v, want at once", got)
	}
}

// A thousand who lie are said, but not as often.
func TestLiarsAreNotSaidOneByOne(t *testing.T) {
	r := newRig(t, start{config: web + byDNS})
	r.now = r.now.Truncate(time.Second)
	for i := range 1000 {
		client := fmt.Sprintf("198.18.%d.%d", i>>8, i&255)
		r.crawls(client, 1)
		r.told(client, detector.Disproved, "")
	}
	if n := len(r.journal.said("claims to be a wanted machine, and is none")); n != perSecond {
		t.Errorf("said %d times within a second, want %d", n, perSecond)
	}
}

// More claimants than can be looked up, and bans than can wait, are said.
func TestTooManyClaimantsAreSaid(t *testing.T) {
	r := newRig(t, start{config: web + byDNS})
	for i := range detector.MaxQuestions + 5 {
		client := fmt.Sprintf("%d.%d.0.1", 40+i%80, i/80) // each of a network of its own
		r.batch(r.lines(crawl(client, 2, r.now)), r.now)
	}
	r.upkeep(r.now)
	// The last five got the places of five who are banned already, as theirs could
	// not wait.
	r.journal.want(t, 1, "too many claim to be wanted machines: some names were not looked up, and those clients counted as ordinary", "total", 5)
	r.journal.want(t, 1, "too many bans wait for a proof: some were made at once", "total", detector.MaxQuestions+5-detector.MaxPostponed)
}

// What was counted of a machine before it proved itself is used up, also when its
// lines are read again after a crash.
func TestProvedIsUsedUpAfterAKill(t *testing.T) {
	config := jailed("2", `"1h"`) + byDNS
	r := newRecalled(t, config)
	r.send(0, crawl(one, 2, r.now))
	r.told(one, detector.Proved, "x.googlebot.com")
	r.handOver()
	r.kill(config)
	r.send(0, r.line(one, 0), r.line(one, 0)) // another program at that address
	r.journal.want(t, 0, "banned")
	r.send(0, r.line(one, 0))
	r.journal.want(t, 1, "banned", "client", one)
}

// A decision that a kill loses is made by the next line.
func TestWhatWaitsIsDecidedAgainAfterAKill(t *testing.T) {
	r := newRecalled(t, jailed("2", `"1h"`)+byDNS)
	r.send(0, crawl(one, 3, r.now))
	r.journal.want(t, 0, "banned")
	r.kill(jailed("2", `"1h"`))
	r.send(0, r.line(one, 0))
	r.journal.want(t, 1, "banned", "client", one)
}

// resolver is one without a network.
type resolver struct {
	addr func(ctx context.Context, addr string) ([]string, error)
	ip   func(ctx context.Context, host string) ([]netip.Addr, error)
}

func (f resolver) LookupAddr(ctx context.Context, addr string) ([]string, error) {
	return f.addr(ctx, addr)
}

func (f resolver) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f.ip(ctx, host)
}

// hangs answers nothing, and doesn't even notice that it is given up on.
type hangs struct{ release chan struct{} }

func (h hangs) LookupAddr(context.Context, string) ([]string, error) {
	<-h.release
	return nil, errors.New("released")
}

func (h hangs) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	<-h.release
	return nil, errors.New("released")
}

// No DNS on the way of a line: with one that hangs for ever, and more clients
// than may be looked up at once, all lines are counted and others are banned.
func TestHangingDNSHoldsNothingUp(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	h := hangs{make(chan struct{})}
	l := newLive(t, s, s.config(enforced+byDNS), func(o *Options) { o.Resolver = h })
	t.Cleanup(func() { close(h.release) }) // comes before the daemon is ended
	const claimants = 3 * prove.AtOnce
	for i := range claimants {
		s.write(crawl(fmt.Sprintf("198.%d.100.7", i), 3, time.Now()))
	}
	s.requests("203.0.113.1", 3)
	l.counted(3*claimants + 3)
	wait(t, "the ban of somebody else", func() bool { return l.firewall.holds("203.0.113.1/32") })
	wait(t, "questions to be taken", func() bool { return l.d.prover.Stats().LookUps == prove.AtOnce })
	st := l.status()
	if p := st.Proofs; p == nil || p.Waiting != claimants || p.Postponed != claimants || p.Proved+p.Disproved+p.Failed != 0 {
		t.Errorf("%+v", st.Proofs)
	}
	if st.Bans != 1 {
		t.Errorf("%d bans, want one", st.Bans)
	}
	x := l.explain("198.51.100.7")
	if x.Conclusion != control.Postponed || !strings.Contains(x.Text, "is not banned yet: what jail web decided waits until ") ||
		x.Named == nil || x.Named.Result != control.NamesAsked || x.Named.Due.IsZero() {
		t.Errorf("%s: %s, %+v", x.Conclusion, x.Text, x.Named)
	}
}

// The whole daemon: a machine proves itself and is spared, who lies is banned, and
// both are explained. After a restart without any DNS the machine still is.
func TestProofByNameSurvivesRestartWithoutDNS(t *testing.T) {
	t.Parallel()
	const good, liar = "66.249.66.1", "203.0.113.9"
	s := newSite(t, t.TempDir())
	text := s.config(enforced + byDNS)
	l := newLive(t, s, text, func(o *Options) {
		o.Resolver = resolver{
			addr: func(_ context.Context, addr string) ([]string, error) {
				switch addr {
				case good, liar:
					return []string{"crawl-1.googlebot.com."}, nil
				}
				return nil, &net.DNSError{IsNotFound: true}
			},
			ip: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(good)}, nil
			},
		}
	})
	s.write(crawl(good, 4, time.Now()), crawl(liar, 4, time.Now()))
	wait(t, "the liar's ban", func() bool { return l.firewall.holds(liar + "/32") })
	wait(t, "both to be looked up", func() bool { p := l.status().Proofs; return p.Proved == 1 && p.Disproved == 1 })
	s.write(crawl(good, 9, time.Now()))
	l.counted(17)
	x := l.explain(good)
	if x.Named == nil || x.Named.Result != control.NamesProve || fmt.Sprint(x.Named.Names) != "[crawl-1.googlebot.com]" ||
		!strings.Contains(x.Text, "wanted agent: search, by DNS: crawl-1.googlebot.com") {
		t.Errorf("%s, %+v", x.Text, x.Named)
	}
	if x := l.explain(liar); x.Conclusion != control.Banned || x.Named.Result != control.NamesDisprove || x.Named.Reason != "its name crawl-1.googlebot.com does not have its address" {
		t.Errorf("%s, %+v", x.Text, x.Named)
	}
	l.stop()
	l.journal.want(t, 0, "banned", "client", good)
	l.journal.want(t, 1, "claims to be a wanted machine, and is none", "client", liar)

	l = newLive(t, s, text, func(o *Options) {
		o.Resolver = resolver{addr: func(context.Context, string) ([]string, error) { return nil, errors.New("no DNS") }}
	})
	s.write(crawl(good, 9, time.Now()))
	l.counted(9)
	if x := l.explain(good); x.Named == nil || x.Named.Result != control.NamesProve {
		t.Errorf("after a restart: %s, %+v", x.Text, x.Named)
	}
	if n := l.d.prover.Stats().LookUps; n != 0 {
		t.Errorf("%d look-ups after a restart", n)
	}
}

// A file that can't be read is said, and no reason not to start.
func TestDamagedProvedFile(t *testing.T) {
	for config, said := range map[string]int{web + byDNS: 1, web: 0} {
		j := &journal{}
		d := newDaemon(Options{Config: parse(t, config), Log: j.logger()})
		d.Config.StateDir = t.TempDir()
		check(t, os.WriteFile(filepath.Join(d.Config.StateDir, provedFile), []byte("{"), 0o600))
		d.loadProofs()
		j.want(t, said, "who can only prove by his name to be a wanted machine is an ordinary client until it is looked up")
	}
}

// A reload brings machines that are known by their names, and takes them away.
func TestReloadBringsProofByName(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), func(o *Options) {
		o.Resolver = resolver{
			addr: func(context.Context, string) ([]string, error) { return []string{"x.googlebot.com."}, nil },
			ip: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("203.0.113.9")}, nil
			},
		}
	})
	if p := l.status().Proofs; p != nil {
		t.Errorf("before: %+v", p)
	}
	l.reloaded(s.config(enforced + byDNS))
	s.write(crawl("203.0.113.9", 3, time.Now()))
	wait(t, "the proof", func() bool { return l.status().Proofs.Proved == 1 })
	l.reloaded(s.config(enforced))
	s.write(crawl("203.0.113.9", 3, time.Now()))
	wait(t, "the ban", func() bool { return l.firewall.holds("203.0.113.9/32") })
}
