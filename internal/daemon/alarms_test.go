package daemon

import (
	"slices"
	"strings"
	"testing"
)

// countOf counts what was told of a kind.
func countOf(b *inbox, kind string) (n int) {
	for _, x := range b.told() {
		if x == kind {
			n++
		}
	}
	return n
}

// Whoever was told that an action fails is told that nobody uses it any more, be it
// configured or not. If it is used again and fails, that is news.
func TestAlarmOfActionThatIsNotUsedAnyMoreEnds(t *testing.T) {
	t.Parallel()
	for _, stays := range []bool{false, true} {
		t.Run(map[bool]string{false: "gone", true: "still configured"}[stays], func(t *testing.T) {
			t.Parallel()
			b, f, g, s := newInbox(t), newFolder(t), newFolder(t), newSite(t, t.TempDir())
			use := func(name string) string {
				return strings.Replace(atFirst, "limit", "actions = [\""+name+"\"]\nlimit", 1) + b.table("ops", "")
			}
			f.program("ban", "exit 1")
			failing := use("f") + f.action("f", nil)
			r := newReloadableAt(t, s, s.config(failing))
			r.requests("198.51.100.1", 1)
			wait(t, "the alarm", func() bool { return countOf(b, "alarm") == 1 })
			other := use("g") + g.action("g", nil)
			if stays {
				other += f.action("f", nil)
			}
			r.reload(other)
			wait(t, "its end", func() bool { return countOf(b, "recover") == 1 })
			b.mu.Lock()
			last := b.messages[len(b.messages)-1].Events
			b.mu.Unlock()
			if e := last[len(last)-1]; e.Reason != "action f: no longer in use" {
				t.Errorf("told: %+v", e)
			}
			if stays {
				r.reload(failing)
				wait(t, "another alarm", func() bool { return countOf(b, "alarm") == 2 })
			}
			r.stop()
		})
	}
}

// So it is if the configuration has changed while no daemon ran.
func TestAlarmOfActionThatIsNotUsedAfterRestartEnds(t *testing.T) {
	t.Parallel()
	b, f, g, s := newInbox(t), newFolder(t), newFolder(t), newSite(t, t.TempDir())
	f.program("ban", "exit 1")
	r := newReloadableAt(t, s, s.config(atFirst+f.action("f", nil)+b.table("ops", "")))
	r.requests("198.51.100.1", 1)
	wait(t, "the alarm", func() bool { return slices.Contains(b.told(), "alarm") })
	r.stop()
	r = newReloadableAt(t, s, s.config(atFirst+g.action("g", nil)+b.table("ops", "")))
	wait(t, "its end", func() bool { return slices.Contains(b.told(), "recover") })
	r.stop()
}
