package daemon

import (
	"path/filepath"

	"github.com/tailban/tailban/state"
)

// InUse reports whether a daemon runs that has its state in a folder.
func InUse(stateDir string) (bool, error) { return state.InUse(filepath.Join(stateDir, stateFile)) }
