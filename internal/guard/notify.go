package guard

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/fsnotify/fsnotify"
)

// notify wakes up when files or folders change.
type notify struct {
	log     *slog.Logger
	changed chan struct{}
	w       *fsnotify.Watcher // nil: there is none to be had
	ended   chan struct{}
	said    bool
}

func newNotify(log *slog.Logger) *notify {
	n := &notify{log: log, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	var err error
	if n.w, err = fsnotify.NewWatcher(); err != nil {
		n.say(err)
		close(n.ended)
		return n
	}
	go n.forward(n.w.Events, n.w.Errors)
	return n
}

// forward turns events into wake-ups, until they end. An error is a queue that
// has run over: then something has changed, too.
func (n *notify) forward(events <-chan fsnotify.Event, errs <-chan error) {
	defer close(n.ended)
	for events != nil || errs != nil {
		var ok bool
		select {
		case _, ok = <-events:
			if !ok {
				events = nil
			}
		case _, ok = <-errs:
			if !ok {
				errs = nil
			}
		}
		if ok {
			select {
			case n.changed <- struct{}{}:
			default:
			}
		}
	}
}

// follow watches what is there of paths. It is called again and again: what
// was recreated or appears later is watched from then on.
func (n *notify) follow(paths ...string) {
	if n.w == nil {
		return
	}
	for _, p := range paths {
		if p == "" {
			continue
		}
		if err := n.w.Add(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.say(err)
		}
	}
}

func (n *notify) say(err error) {
	if !n.said {
		n.said = true
		n.log.Warn("cannot watch for SSH sessions; they are looked for every minute", "err", err)
	}
}

func (n *notify) close() {
	if n.w != nil {
		_ = n.w.Close()
	}
	<-n.ended
}
