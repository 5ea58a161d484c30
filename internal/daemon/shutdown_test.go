package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/config"
)

// The daemon is stopped in the middle of a reload that replaces an action: both
// end, and nothing is left over (TestMain looks for goroutines).
func TestReloadWhileStopping(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	other := s.config(strings.ReplaceAll(enforced, "firewall", "other"))
	reading, stopped := make(chan struct{}), make(chan struct{})
	l := newLive(t, s, s.config(enforced), func(o *Options) {
		o.Load = func() (*config.Config, error) {
			close(reading)
			<-stopped
			return config.Parse("jails.toml", []byte(other), nil)
		}
	})
	l.status() // it answers when it takes reloads
	result := make(chan error, 1)
	go func() {
		_, err := l.d.reload(t.Context())
		result <- err
	}()
	<-reading
	l.cancel()
	<-l.d.ended // the engine takes no more questions
	close(stopped)
	if err := <-result; !errors.Is(err, errEnding) {
		t.Errorf("the reload returns %v", err)
	}
	l.stop()
	l.journal.want(t, 0, "going on without what hangs")
	l.journal.want(t, 1, "stopped; bans stay in force until their time is up")
	if !l.firewall.closed {
		t.Error("the replaced action is still open")
	}
}
