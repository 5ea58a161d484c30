package daemon

import (
	"net/http"
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

// An alarm that nobody took before a stop is told by the next start, once, and one
// that was taken isn't told again.
func TestAlarmThatWasNotToldIsToldByTheNextStart(t *testing.T) {
	t.Parallel()
	b, f, s := newInbox(t), newFolder(t), newSite(t, t.TempDir())
	b.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	f.program("ban", "exit 1")
	text := s.config(atFirst + f.action("f", nil) + b.table("ops", ""))
	start := func() *reloadable {
		r := newReloadableAt(t, s, text)
		wait(t, "the failure", func() bool { return len(r.journal.said("bans are not enforced, trying again until they are")) > 0 })
		return r
	}
	r := newReloadableAt(t, s, text)
	r.requests("198.51.100.1", 1)
	wait(t, "a try to tell", func() bool { return b.requests() > 0 })
	r.stop()
	b.mu.Lock()
	b.answer = nil
	b.mu.Unlock()
	r = start()
	wait(t, "the alarm", func() bool { return countOf(b, "alarm") == 1 })
	r.stop()
	r = start()
	f.program("ban", `: > "$1/$2"`)
	wait(t, "its end", func() bool { return countOf(b, "recover") == 1 })
	if n := countOf(b, "alarm"); n != 1 {
		t.Errorf("told %d times", n)
	}
	r.stop()
}
