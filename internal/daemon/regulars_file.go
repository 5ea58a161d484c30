package daemon

import (
	"context"
	"path/filepath"
	"time"

	"github.com/tailban/tailban/state"
)

const (
	// regularsFile is the name of the file in the state folder with who comes
	// again and again.
	regularsFile = "regulars.snap"

	// regularsEvery is how far apart it is stored: a crash loses that much of
	// what is a matter of days.
	regularsEvery = time.Hour
)

// memory has the regulars stored now and then, by a goroutine of its own.
type memory struct {
	path    string
	next    time.Time
	taken   chan *state.Regulars
	failing bool
}

func newMemory(d *daemon, now time.Time) *memory {
	return &memory{path: filepath.Join(d.Config.StateDir, regularsFile), next: now.Add(regularsEvery), taken: make(chan *state.Regulars, 1)}
}

// remember has the regulars stored if that is due and the time before is done.
func (e *engine) remember(now time.Time) {
	if !e.breaker.regulars.changed || now.Before(e.memory.next) {
		return
	}
	select {
	case e.memory.taken <- e.memories():
		e.memory.next = now.Add(regularsEvery)
		e.breaker.regulars.changed = false
	default:
	}
}

// memories is what is stored.
func (e *engine) memories() *state.Regulars {
	out := &state.Regulars{Clients: e.breaker.regulars.stored()}
	for name, l := range e.logs {
		for a, b := range l.majority.days {
			out.Logs = append(out.Logs, state.LogMajority{Log: name, Addr: a, Day: b.day, Days: b.days})
		}
	}
	return out
}

// run stores what is taken until ctx is done.
func (d *daemon) remember(ctx context.Context, m *memory) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-m.taken:
			d.saveRegulars(m, r)
		}
	}
}

func (d *daemon) saveRegulars(m *memory, r *state.Regulars) {
	err := state.SaveRegulars(m.path, r)
	if err != nil && !m.failing {
		d.Log.Warn("who comes again and again can't be stored: after a restart the breaker knows less", "err", err)
	}
	m.failing = err != nil
}

// saveLastRegulars stores them at a clean stop. It reports whether that came to
// an end in time.
func (d *daemon) saveLastRegulars(m *memory, r *state.Regulars) bool {
	return waitFor(startPart(context.Background(), func(context.Context) { d.saveRegulars(m, r) }).done, snapshotPatience)
}

// loadRegulars takes up what an earlier daemon knew. It is no reason not to
// start.
func (d *daemon) loadRegulars(e *engine) {
	r, err := answer(openPatience, errOpening, func() (*state.Regulars, error) {
		return state.LoadRegulars(e.memory.path)
	})
	if err != nil {
		d.Log.Warn("the breaker knows no regular clients: what was known can't be read", "err", err)
	}
	if r == nil {
		return
	}
	e.breaker.regulars.load(r.Clients)
	for _, m := range r.Logs {
		if l := e.logs[m.Log]; l != nil {
			l.majority.days[m.Addr] = dayBits{m.Day, m.Days}
		}
	}
}
