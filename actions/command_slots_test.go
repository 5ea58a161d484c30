//go:build linux

package actions_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailban/tailban/actions"
)

// There is one bound for all programs of an action, whoever asks for them.
func TestCommandConcurrency(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		concurrency int
		tooMany     string
	}{{1, "23456789"}, {3, "456789"}} {
		dir := t.TempDir()
		count := sh(t, `: > "$1/run $$"; ls "$1" | grep -c run >> "$1/seen"; sleep 0.02; rm "$1/run $$"`, dir)
		c := newCommand(t, actions.CommandOptions{Ban: count, Unban: count, Check: count, List: count, Concurrency: test.concurrency})
		apply(t, c, ban("192.0.2.1/32", 10*time.Millisecond), ban("192.0.2.2/32", 10*time.Millisecond)) // Run ends them
		var remove []netip.Prefix
		for _, e := range hosts(20)[10:] {
			remove = append(remove, e.Target)
		}
		var all sync.WaitGroup
		all.Go(func() { check(t, c.Apply(t.Context(), hosts(10), remove)) })
		for range 5 {
			all.Go(func() {
				_, _, err := c.Action().(actions.Holder).Held(t.Context(), pfx("198.51.100.1/32"))
				check(t, err)
				_, err = c.List(t.Context())
				check(t, err)
			})
		}
		all.Wait()
		if seen := read(t, dir+"/seen"); strings.ContainsAny(seen, test.tooMany) || !strings.ContainsAny(seen, "123"[test.concurrency-1:]) {
			t.Errorf("runs at a time with %d: %q", test.concurrency, strings.Fields(seen))
		}
	}
}

// Whatever bans hang, there is a slot for those that end, and the other way
// round; and who only asks leaves one for both.
func TestCommandSlotsAreKept(t *testing.T) {
	t.Parallel()
	for _, hangs := range []string{"ban", "unban", "check"} {
		dir := t.TempDir()
		// It hangs for all but 192.0.2.1 until it is let go.
		script := sh(t, `
[ $2 != $3 ] || [ $4 = 192.0.2.1 ] || : > "$1/hangs $4"
[ $2 != $3 ] || [ $4 = 192.0.2.1 ] || while [ ! -e "$1/go" ]; do sleep 0.01; done
case $2 in ban) : > "$1/$4" ;; unban) : > "$1/$4 out" ;; esac`, dir)
		does := func(verb string) []string { return append(append([]string{}, script...), verb, hangs, "{address}") }
		c := newCommand(t, actions.CommandOptions{Ban: does("ban"), Unban: does("unban"), Check: does("check"), Concurrency: 4, Timeout: 10 * time.Minute})
		exists := func(name string) func() bool {
			return func() bool { _, err := os.Stat(dir + "/" + name); return err == nil }
		}
		hanging := func(n int) {
			t.Helper()
			within(t, "programs that hang", func() bool { files, _ := filepath.Glob(dir + "/hangs *"); return len(files) == n })
		}
		var all sync.WaitGroup
		switch hangs {
		case "ban":
			apply(t, c, ban("192.0.2.1/32", time.Second))
			all.Go(func() { check(t, c.Apply(t.Context(), hosts(10), nil)) })
			hanging(3)
			within(t, "the end of a ban while others hang", exists("192.0.2.1 out"))
		case "unban":
			short := hosts(10)
			for i := range short {
				short[i].Left = time.Second // or some are over before their turn, and not made
			}
			apply(t, c, short...)
			hanging(3)
			apply(t, c, ban("192.0.2.1/32", time.Hour))
		case "check":
			for _, e := range hosts(10) {
				all.Go(func() {
					_, _, err := c.Action().(actions.Holder).Held(t.Context(), e.Target)
					check(t, err)
				})
			}
			hanging(2)
			apply(t, c, ban("192.0.2.1/32", time.Second))
			within(t, "a ban and its end while who asks waits", exists("192.0.2.1 out"))
		}
		check(t, os.WriteFile(dir+"/go", nil, 0o600))
		all.Wait()
	}
}
