package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// leftAt is how much longer the firewall holds a ban.
func (l *live) leftAt(target string) time.Duration {
	l.firewall.mu.Lock()
	defer l.firewall.mu.Unlock()
	return time.Until(l.firewall.bans[pfx(target)])
}

// Until somebody confirms, bans end at the deadline; then they last as they
// should.
func TestConfirm(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), func(o *Options) { o.Confirm = 10 * time.Minute })
	s.requests("203.0.113.1", 3)
	wait(t, "the ban", func() bool { return l.firewall.holds("203.0.113.1/32") })
	if left := l.leftAt("203.0.113.1/32"); left > 10*time.Minute || left < 9*time.Minute {
		t.Errorf("banned for %v more, want the deadline's 10 minutes", left)
	}
	if st := l.status(); !strings.Contains(problem(st, "unconfirmed"), "all bans end at") || st.ConfirmBy.IsZero() {
		t.Errorf("status says %+v", st.Problems)
	}
	done, err := l.client.Confirm(t.Context())
	check(t, err)
	if done.Deadline.IsZero() || done.Late {
		t.Errorf("the answer is %+v", done)
	}
	wait(t, "the whole ban", func() bool { return l.leftAt("203.0.113.1/32") > 59*time.Minute })
	if st := l.status(); !st.Healthy || !st.ConfirmBy.IsZero() {
		t.Errorf("status says %+v", st.Problems)
	}
	again, err := l.client.Confirm(t.Context())
	check(t, err)
	if *again != (control.ConfirmResult{}) {
		t.Errorf("a second confirm is answered %+v", again)
	}
}

// Nobody confirms: every ban ends at the deadline, none begins, and a late word
// puts them in force.
func TestConfirmedTooLate(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	l := newLive(t, s, s.config(enforced), func(o *Options) { o.Confirm = time.Second })
	s.requests("203.0.113.1", 3)
	wait(t, "the deadline", func() bool {
		return strings.Contains(problem(l.status(), "unconfirmed"), "nobody has confirmed") && l.leftAt("203.0.113.1/32") <= 0
	})
	s.requests("203.0.113.2", 3)
	l.counted(6)
	wait(t, "nothing to be pending", func() bool { return l.d.enforcer("firewall").reconciler.Stats().Pending == 0 })
	if l.leftAt("203.0.113.2/32") > 0 {
		t.Error("a ban begins behind the deadline")
	}
	s.write(line("203.0.113.2", time.Now().Add(2*time.Second))) // younger than the ban by its second
	l.counted(7)
	if x := l.explain("203.0.113.2"); !strings.Contains(x.Through, "nobody has confirmed this start") {
		t.Errorf("explained as %q", x.Through)
	}
	done, err := l.client.Confirm(t.Context())
	check(t, err)
	if !done.Late {
		t.Errorf("the answer is %+v", done)
	}
	for _, target := range []string{"203.0.113.1/32", "203.0.113.2/32"} {
		wait(t, "the bans", func() bool { return l.leftAt(target) > 59*time.Minute })
	}
	if s := l.d.enforcer("firewall").reconciler.Stats(); s.DriftAdded+s.DriftCorrected > 0 {
		t.Errorf("our own change is counted as somebody else's: %+v", s)
	}
}
