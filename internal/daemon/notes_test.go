package daemon

import (
	"strings"
	"testing"

	"github.com/tailban/tailban/state"
)

// What is noted goes with the snapshot that it follows: it is forgotten when a
// later one is durable, and is never more than twice what may be.
func TestNotesAreForgotten(t *testing.T) {
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.notes.max = 10
	d := newDisk()
	finish := func(n int) {
		for range n {
			b := r.lines()
			b.Final = true
			r.batch(b, r.now)
		}
	}
	stored := func(want int, full bool) {
		t.Helper()
		for _, u := range r.took() {
			d.commit(u)
		}
		found := false
		for _, n := range d.notes {
			found = found || n.What == state.NoteFull
		}
		if len(d.notes) != want || found != full {
			t.Fatalf("%d notes are stored, full: %v; want %d, %v: %+v", len(d.notes), found, want, full, d.notes)
		}
	}
	finish(1)
	stored(0, false) // nobody will ask
	first := r.count(r.now)
	finish(3)
	stored(1+3, false)
	r.count(r.now) // is not stored
	finish(1)
	stored(1+3+1+1, false)
	r.snapshots.stored.Store(first.mark)
	third := r.count(r.now)
	stored(1+3+1+1+1, false)
	r.snapshots.stored.Store(third.mark)
	finish(12)
	stored(1+3+1+1+1+9+1, true)
	r.count(r.now)
	stored(1+1+1, true) // the third is of no use any more
	l := d.loaded()
	if _, err := planReread(parse(t, web), &state.Windows{Mark: third.mark}, &l, lookFor); err == nil || !strings.Contains(err.Error(), "more has been decided since") {
		t.Errorf("a start by the third says %v", err)
	}
	finish(1)
	last := r.count(r.now)
	stored(1+1+1+1+1, true)
	r.snapshots.stored.Store(last.mark)
	r.count(r.now)
	stored(1+1, false)
}
