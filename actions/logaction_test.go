//go:build linux

package actions_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
)

func TestLogSuite(t *testing.T) {
	actionstest.Run(t, func(*testing.T) actions.Action {
		return actions.NewLog(slog.New(slog.DiscardHandler))
	})
}

func TestLogSaysEachBanOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(bytes.Buffer)
		l := actions.NewLog(slog.New(slog.NewTextHandler(out, nil)))
		said := func(text string, want int) {
			t.Helper()
			if got := strings.Count(out.String(), text); got != want {
				t.Errorf("%q was said %d times, want %d:\n%s", text, got, want, out)
			}
		}
		apply(t, l, ban("192.0.2.1/32", time.Hour))
		apply(t, l, ban("192.0.2.1/32", 2*time.Hour))
		said("msg=ban target=192.0.2.1/32 for=1h0m0s", 1)
		said("192.0.2.1", 1)
		for range 2 {
			check(t, l.Apply(t.Context(), nil, []netip.Prefix{pfx("192.0.2.1/32")}))
		}
		said("msg=unban target=192.0.2.1/32", 1)

		apply(t, l, ban("192.0.2.2/32", time.Minute))
		time.Sleep(time.Minute)
		if got := listed(t, l); len(got) != 0 {
			t.Errorf("holds %v after its time", got)
		}
		apply(t, l, ban("192.0.2.2/32", time.Minute))
		said("msg=ban target=192.0.2.2/32", 2)
	})
}

func TestLogIsBounded(t *testing.T) {
	l := actions.NewLog(slog.New(slog.DiscardHandler))
	var all []actions.Entry
	for i := range 131073 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		all = append(all, actions.Entry{Target: netip.PrefixFrom(a, 32), Left: time.Hour})
	}
	apply(t, l, all[1:]...)
	apply(t, l, all[1:]...)
	if err := l.Apply(t.Context(), all[:1], nil); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("one more than it can hold returned %v", err)
	}
	check(t, l.Apply(t.Context(), nil, []netip.Prefix{all[5].Target}))
	apply(t, l, all[0])
}
