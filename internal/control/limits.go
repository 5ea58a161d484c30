package control

import "time"

// How long the daemon's parts may take to answer.
const (
	backendTimeout       = 30 * time.Second
	backendReloadTimeout = 2 * time.Minute
)

// Bounds on what others can make the daemon keep.
const (
	maxConns     = 32 // per socket
	maxConnsUser = 8  // of one user on the status socket
	maxFollowers = 16 // per socket
	maxCalls     = 64 // at work in the daemon, for both sockets
	maxTurnedOff = 16 // connections that are being told that there are too many
	maxHeader    = 8 << 10
	maxBody      = 64 << 10
	maxReason    = 1 << 10
)

// limits are the times that tests shorten.
type limits struct {
	header  time.Duration // for a request's header to arrive
	request time.Duration // for all of a request
	idle    time.Duration // between requests
	write   time.Duration // for the next piece of an answer to be taken
	answer  time.Duration // for all of an answer
	follow  time.Duration // for a follower to take an event
	call    time.Duration
	reload  time.Duration
	grace   time.Duration // for requests to finish when the daemon stops
}

func defaultLimits() limits {
	return limits{
		header:  5 * time.Second,
		request: 10 * time.Second,
		idle:    10 * time.Second,
		write:   30 * time.Second,
		answer:  5 * time.Minute,
		follow:  5 * time.Second,
		call:    backendTimeout,
		reload:  backendReloadTimeout,
		grace:   3 * time.Second,
	}
}
