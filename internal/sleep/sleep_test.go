package sleep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, test := range []struct {
			d, took time.Duration
			want    bool
		}{{0, 0, true}, {-time.Second, 0, true}, {20 * time.Second, 20 * time.Second, true}, {time.Hour, 40 * time.Second, false}, {0, 0, false}} {
			begin := time.Now()
			if got := For(ctx, test.d); got != test.want || time.Since(begin) != test.took {
				t.Errorf("%v: %v after %v, want %v after %v", test.d, got, time.Since(begin), test.want, test.took)
			}
		}
	})
}
