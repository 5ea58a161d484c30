//go:build linux

package actions

import (
	"context"

	"github.com/tailban/tailban/internal/argv"
)

// slots bound how many programs of one action run at a time, whoever asks for
// them. One is kept for taking out, and one for the rest, so that neither waits
// for many of the other that hang; and half of them for what changes something,
// so that those who only ask don't hold it up. A single slot is for all in turn.
type slots struct {
	all    chan struct{}
	unban  chan struct{}
	others chan struct{}
	looks  chan struct{} // of the others
}

func newSlots(n int) *slots {
	return &slots{
		all:    make(chan struct{}, n),
		unban:  make(chan struct{}, max(1, n-1)),
		others: make(chan struct{}, max(1, n-1)),
		looks:  make(chan struct{}, max(1, n/2)),
	}
}

// take waits for a slot. It has to be given back.
func (s *slots) take(ctx context.Context, v argv.Verb) (giveBack func(), err error) {
	var way []chan struct{} // the narrowest first, so that nobody waits in a wide one
	switch v {
	case argv.Unban:
		way = []chan struct{}{s.unban, s.all}
	case argv.Ban:
		way = []chan struct{}{s.others, s.all}
	default:
		way = []chan struct{}{s.looks, s.others, s.all}
	}
	taken := 0
	giveBack = func() {
		for _, c := range way[:taken] {
			<-c
		}
	}
	for _, c := range way {
		select {
		case c <- struct{}{}:
			taken++
		case <-ctx.Done():
			giveBack()
			return nil, ctx.Err()
		}
	}
	return giveBack, nil
}
