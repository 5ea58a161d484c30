package source

import (
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
)

// complain says what is wrong with a name when that has changed.
func (r *follower) complain(n *name, err error) {
	bad, other := new(insecure), new(shared)
	switch {
	case missing(err):
		n.state = Waiting
	case errors.As(err, &bad) || errors.As(err, &other) || errors.Is(err, errTooMany):
		n.state = Refused
	default:
		n.state = Failing
	}
	n.exhausted = nil
	if exhausted(err) {
		n.exhausted = err // said of all together
	}
	if text := reason(err); n.trouble != text {
		n.trouble = text
		if missing(err) && n.settled && r.hasTail(n.path) {
			return // between rename and re-creation
		}
		if errors.Is(err, errNowhere) {
			r.log.Warn("log is a symbolic link that leads nowhere, waiting for its file", slog.String("path", n.path))
			return
		}
		if missing(err) {
			r.log.Warn("log does not exist, waiting for it (is its path right?)", slog.String("path", n.path))
			return
		}
		if n.state == Refused {
			r.counts.refused.Add(1)
		}
		if n.exhausted != nil {
			return
		}
		if said := "shared with " + other.owner; other.owner != "" && r.said[said] {
			return // status tells the others
		} else if other.owner != "" {
			r.said[said] = true
		}
		if n.state == Refused {
			r.log.Error("log is not read"+refusedHint(err), slog.String("path", n.path), slog.Any("reason", err))
			return
		}
		r.log.Error("cannot open log, trying again"+openHint(n.path, err), slog.String("path", n.path), slog.Any("err", err))
	}
}

func (r *follower) content(n *name) {
	n.trouble, n.state, n.suspect, n.exhausted = "", Following, identity{}, nil
}

// vanished forgets a name that a glob had found and that is gone, as of a file
// that was rotated since. Nobody waits for it, unless its file is open: then a
// successor is about to appear.
func (r *follower) vanished(n *name, err error) bool {
	if !missing(err) || errors.Is(err, errNowhere) || !n.glob || r.hasTail(n.path) {
		return false
	}
	r.names.forget(n.path)
	return true
}

// What befalls many files at once is said once, with their number.

// crowd is the files of one trouble.
type crowd struct {
	files int
	first string // the name of one
	err   string
	hint  string

	said int // how many were spoken of
	when time.Time
}

func (c *crowd) add(path, err string) {
	if c.files == 0 || path < c.first {
		c.first, c.err = path, err
	}
	c.files++
}

// news reports whether there are more than were spoken of; while their number
// grows that is spoken of once a minute.
func (c *crowd) news(now time.Time) bool {
	if c.files == 0 {
		c.said = 0
		return false
	}
	if c.files <= c.said || c.said > 0 && now.Sub(c.when) < sayEvery {
		return false
	}
	c.said, c.when = c.files, now
	return true
}

func (c *crowd) attrs() []any {
	return []any{slog.Int("files", c.files), slog.String("first", c.first), slog.String("err", c.err)}
}

// exhausted reports whether an error is of all files, as something is used up.
func exhausted(err error) bool {
	return errors.Is(err, errTooMany) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)
}

// sayCrowds says which files aren't opened as something is used up, and which
// are polled as inotify can't be had for them.
func (r *follower) sayCrowds() {
	now := time.Now()
	for _, c := range r.unopened {
		c.files = 0
	}
	for _, n := range r.names.byPath {
		if n.exhausted == nil {
			continue
		}
		text := reason(n.exhausted)
		if r.unopened[text] == nil {
			r.unopened[text] = &crowd{hint: refusedHint(n.exhausted)}
			if n.state == Failing {
				r.unopened[text].hint = openHint(n.path, n.exhausted)
			}
		}
		r.unopened[text].add(n.path, text)
	}
	for _, c := range r.unopened {
		if c.news(now) {
			r.log.Error("logs are not read"+c.hint, c.attrs()...)
		}
	}
	r.unwatched.files = 0
	for _, t := range r.tails {
		switch why := t.unwatched.Load(); {
		case why != nil:
			r.unwatched.add(t.name, *why)
		case r.notify && !t.watchTried.Load():
			return // those that begin at this moment count as well
		}
	}
	if r.unwatched.news(now) {
		r.log.Warn("no wake-ups for some files, polling them", r.unwatched.attrs()...)
	}
}
