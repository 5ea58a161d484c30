//go:build linux

package actions_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/actionstest"
)

func TestLogSuite(t *testing.T) {
	actionstest.Run(t, func(*testing.T) actions.Action { return actions.NewLog(slog.New(slog.DiscardHandler)) })
}

func TestLogForgetsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := actions.NewLog(slog.New(slog.DiscardHandler))
		apply(t, l, ban("192.0.2.2/32", time.Minute))
		time.Sleep(time.Minute)
		if got := listed(t, l); len(got) != 0 {
			t.Errorf("holds %v after its time", got)
		}
	})
}
