package daemon

import (
	"context"

	"github.com/tailban/tailban/internal/config"
)

// keepConfig has a copy kept of a configuration that came from a file and runs.
// It doesn't wait for the disk.
func (d *daemon) keepConfig(c *config.Config) {
	if d.Load != nil {
		d.keep.put(c)
	}
}

// startKeeper keeps copies.
func (d *daemon) startKeeper() *part {
	return startPart(d.serving, func(ctx context.Context) {
		for {
			select {
			case c := <-d.keep.latest:
				d.keepOne(c)
				continue
			default:
			}
			select {
			case c := <-d.keep.latest:
				d.keepOne(c)
			case <-ctx.Done():
				return
			}
		}
	})
}

func (d *daemon) keepOne(c *config.Config) {
	if err := c.SaveLastGood(); err != nil {
		d.Log.Warn("a start with a broken configuration could not go back to this one", "err", err)
	}
}
