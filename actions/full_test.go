//go:build linux

package actions_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/syncbuf"
)

// In a set of the kernel's that is full stand the bans that end last; others
// come in when there is room, and each family has its own.
func TestFullInTheKernel(t *testing.T) {
	t.Parallel()
	n := newNftables(t, newNS(t), actions.NftablesOptions{Size: 4})
	said := &syncbuf.Buffer{}
	r := actions.NewReconciler(actions.Options{Name: "test", Action: n, Interval: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(said, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() { cancel(); check(t, <-done) }()

	in := func(target string, left time.Duration) { r.Set(pfx(target), time.Now().Add(left)) }
	g := &guarded{T: t, reconciler: r}
	holds := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		g.until("the kernel holds "+strings.Join(want, " "), func() bool {
			var got []string
			entries, err := n.List(t.Context())
			for _, e := range entries {
				got = append(got, e.Target.String())
			}
			slices.Sort(got)
			return err == nil && slices.Equal(got, want)
		})
	}
	for i, target := range []string{"10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32", "10.0.0.4/32"} {
		in(target, time.Duration(i+1)*time.Hour)
	}
	in("2001:db8::/64", time.Minute)
	holds("10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32", "10.0.0.4/32", "2001:db8::/64")

	in("10.0.0.5/32", 5*time.Hour)
	in("10.0.0.6/32", 30*time.Minute) // the first to go again
	holds("10.0.0.2/32", "10.0.0.3/32", "10.0.0.4/32", "10.0.0.5/32", "2001:db8::/64")
	if s := r.Stats(); s.LeftOut != 2 || s.Failing {
		t.Errorf("%d left out, failing: %v", s.LeftOut, s.Err)
	}
	g.until("it is said", func() bool {
		return strings.Contains(said.String(), "the action is full: the bans that end soonest are not enforced") && strings.Contains(said.String(), "size=4")
	})

	r.Delete(pfx("10.0.0.4/32"))
	holds("10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32", "10.0.0.5/32", "2001:db8::/64")
	in("10.0.0.2/32", 2*time.Second) // its end makes room as well
	holds("10.0.0.1/32", "10.0.0.6/32", "10.0.0.3/32", "10.0.0.5/32", "2001:db8::/64")
	g.until("it is over", func() bool { return strings.Contains(said.String(), "the action has room for all bans again") })
}
