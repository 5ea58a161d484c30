package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/notify"
	"github.com/tailban/tailban/internal/wholefile"
)

// alarmsFile is the name of the file in the state folder with the troubles that
// go on.
const alarmsFile = "alarms.json"

// alarms are the troubles that go on, by what they are about and since when. They
// outlive a restart, and an action that a reload replaces: neither is a reason to
// tell of them again, and their end is told.
type alarms struct {
	mu      sync.Mutex
	open    map[string]time.Time
	changed chan struct{} // holds a token while they are other than stored
}

func newAlarms() *alarms {
	return &alarms{open: map[string]time.Time{}, changed: make(chan struct{}, 1)}
}

// begin notes that a trouble is there, and reports whether that is news.
func (a *alarms) begin(about string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.open[about]; known {
		return false
	}
	a.open[about] = now
	a.change()
	return true
}

// end notes that a trouble is over, and reports whether it was there.
func (a *alarms) end(about string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.open[about]; !known {
		return false
	}
	delete(a.open, about)
	a.change()
	return true
}

// goesOn reports whether a trouble is there.
func (a *alarms) goesOn(about string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.open[about]
	return known
}

// keep forgets those of logs and lists that a configuration doesn't have and of
// actions that nobody uses, and lists what these are.
func (a *alarms) keep(c *config.Config) (gone []string) {
	known := map[string]bool{}
	for i := range c.Logs {
		known["log "+c.Logs[i].Name] = true
	}
	for _, x := range enforcing(c) {
		known["action "+x.Name] = true
	}
	for _, l := range c.Refreshed() {
		known["list "+l.Name] = true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for about := range a.open {
		if of, _, _ := strings.Cut(about, ":"); !known[of] {
			delete(a.open, about)
			gone = append(gone, of)
			a.change()
		}
	}
	slices.Sort(gone)
	return slices.Compact(gone)
}

// dropAlarms ends those of what a configuration doesn't use: nobody else would.
func (d *daemon) dropAlarms(c *config.Config) {
	for _, of := range d.hub.alarms.keep(c) {
		d.hub.publish(recovery(time.Now(), of+": no longer in use"))
	}
}

// forget forgets those that began after a time, and reports whether there are any.
func (a *alarms) forget(after time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.open)
	maps.DeleteFunc(a.open, func(_ string, since time.Time) bool { return since.After(after) })
	return len(a.open) != before
}

// change has them stored. a.mu is held.
func (a *alarms) change() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// maxAlarms is how much is read of them.
const maxAlarms = 1 << 20

// loadAlarms takes up those of an earlier daemon. It is no reason not to start.
func (d *daemon) loadAlarms() {
	path := filepath.Join(d.Config.StateDir, alarmsFile)
	b, err := answer(openPatience, errOpening, func() ([]byte, error) { return wholefile.Read(path, maxAlarms) })
	open := map[string]time.Time{}
	if err == nil {
		err = json.Unmarshal(b, &open)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.Log.Warn("troubles that went on may be told again: which these were can't be read", "path", path, "err", err)
		}
		return
	}
	a := d.hub.alarms
	a.mu.Lock()
	maps.Copy(a.open, open)
	a.mu.Unlock()
}

// keepAlarms stores them whenever they change, until ctx is done.
func (d *daemon) keepAlarms(ctx context.Context) {
	failing := false
	store := func() {
		path, err := d.storeAlarms()
		if err != nil && !failing {
			d.Log.Warn("which troubles go on can't be stored: after a restart they may be told again", "path", path, "err", err)
		}
		failing = err != nil
	}
	for {
		select {
		case <-ctx.Done():
			select {
			case <-d.hub.alarms.changed:
				store()
			default:
			}
			return
		case <-d.hub.alarms.changed:
			store()
		}
	}
}

func (d *daemon) storeAlarms() (path string, err error) {
	path = filepath.Join(d.Config.StateDir, alarmsFile)
	d.hub.alarms.mu.Lock()
	b, err := json.Marshal(d.hub.alarms.open)
	d.hub.alarms.mu.Unlock()
	if err == nil {
		err = wholefile.Write(path, b)
	}
	return path, err
}

// forgetUntold forgets the alarms that somebody was to be told of and was not, once
// nobody is told any more: the next start tells them, twice to those who took them.
func (d *daemon) forgetUntold() {
	forgot := false
	for _, n := range d.told() {
		s := n.Stats()
		if s.Waiting == 0 || !n.Tells(notify.Alarm) {
			continue
		}
		after := d.started // what is older was told by another daemon, or began anew
		if s.Told.After(after) {
			after = s.Told
		}
		forgot = d.hub.alarms.forget(after) || forgot
	}
	if !forgot || d.hangs {
		return
	}
	_, err := answer(loadPatience, errors.New("it takes too long: does the disk hang?"), d.storeAlarms)
	if err != nil {
		d.Log.Warn("troubles that were not told won't be told by the next start: that can't be stored", "err", err)
	}
}
