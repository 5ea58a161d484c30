package control

import "time"

// How long the daemon's parts may take to answer.
const (
	backendTimeout       = 30 * time.Second
	backendReloadTimeout = 2 * time.Minute
)
