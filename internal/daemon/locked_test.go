package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/tailban/tailban/state"
)

func TestSecondDaemonOnOneStateIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	s.run(s.config(logOnly))
	second := &journal{}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := Run(ctx, Options{Config: parse(t, s.config(logOnly)), Log: second.logger(), Host: "here"})
	if !errors.Is(err, state.ErrLocked) {
		t.Errorf("Run returned %v, want %v", err, state.ErrLocked)
	}
	if second.String() != "" {
		t.Errorf("the error is returned and something is logged as well: %s", second)
	}
}
