package daemon

import (
	"os"
	"path/filepath"
	"testing"
)

const damaged = "the state file was damaged; going on with what could be read"

func TestDamagedStateIsPutAside(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	check(t, os.Mkdir(s.state, 0o700))
	path := filepath.Join(s.state, stateFile)
	garbage := make([]byte, 1<<16)
	for i := range garbage {
		garbage[i] = byte(i * 7)
	}
	check(t, os.WriteFile(path, garbage, 0o600))

	r := s.run(s.config(logOnly))
	s.requests("203.0.113.201", 3)
	r.waitBanned("203.0.113.201")
	r.stop()

	r.journal.want(t, 1, damaged)
	aside, err := filepath.Glob(path + ".damaged-*")
	if err != nil || len(aside) != 1 {
		t.Fatalf("put aside are %v (%v), want one file", aside, err)
	}
	r.journal.want(t, 1, damaged, "kept_as", aside[0])
	if l := s.stored(); len(l.Bans) != 1 {
		t.Errorf("stored are bans %+v, want one", l.Bans)
	}
}
