package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

func update(target string) state.Update {
	return state.Update{Bans: []state.Ban{held(target, time.Now(), time.Hour, "web", "firewall")}}
}

func TestStoreOpensWhenTheDiskComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	check(t, os.WriteFile(dir, nil, 0o600))
	s := newStore(filepath.Join(dir, stateFile), (&journal{}).logger())
	for range 2 {
		if s.Commit(update("192.0.2.1/32")) == nil {
			t.Fatal("a commit to nowhere succeeds")
		}
	}
	check(t, os.Remove(dir))
	check(t, s.Commit(update("192.0.2.1/32")))
	check(t, s.Commit(update("192.0.2.2/32")))
	check(t, s.close())

	again, loaded, err := state.Open(s.path, time.Now())
	check(t, err)
	defer again.Close()
	if len(loaded.Bans) != 2 {
		t.Errorf("stored are %+v, want two bans", loaded.Bans)
	}
}

// What is wrong with a file that is opened late is said like at the start.
func TestStoreSaysWhatIsDamagedLater(t *testing.T) {
	j := &journal{}
	s := newStore(filepath.Join(t.TempDir(), stateFile), j.logger())
	check(t, os.WriteFile(s.path, make([]byte, 1<<16), 0o600))
	check(t, s.Commit(update("192.0.2.1/32")))
	check(t, s.close())
	j.want(t, 1, damaged)
}

func TestCloseOfAStoreNeverOpened(t *testing.T) {
	s := &store{path: "/nonexistent"}
	check(t, s.close())
}

// hungStore hangs in Commit until released. It counts as a store whose Close
// would wait for that.
type hungStore struct {
	called  chan struct{} // closed by the first Commit
	release chan struct{}
}

func newHungStore() *hungStore {
	return &hungStore{called: make(chan struct{}), release: make(chan struct{})}
}

func (h *hungStore) Commit(state.Update) error {
	close(h.called)
	<-h.release
	return errors.New("hung")
}

func (h *hungStore) Close() error {
	<-h.release
	return nil
}

func TestCloseAfterAbandonDoesNotWait(t *testing.T) {
	h := newHungStore()
	s := &store{open: h, abandon: true}
	committed := make(chan error)
	go func() { committed <- s.Commit(state.Update{}) }()
	<-h.called
	closed := make(chan error, 1)
	go func() { closed <- s.close() }()
	select {
	case err := <-closed:
		check(t, err)
	case <-time.After(patience):
		t.Error("close waits for the commit")
	}
	close(h.release)
	<-committed
}
