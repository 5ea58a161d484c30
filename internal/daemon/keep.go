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

// startKeeper keeps copies, and what was put last as it ends.
func (d *daemon) startKeeper() *part {
	return startPart(d.serving, func(ctx context.Context) {
		for ctx.Err() == nil {
			select {
			case c := <-d.keep.latest:
				d.keepOne(c)
			case places := <-d.keepPlaces.latest:
				d.keepPlacesOnce(places)
			case <-ctx.Done():
			}
		}
		select {
		case c := <-d.keep.latest:
			d.keepOne(c)
		default:
		}
		select {
		case places := <-d.keepPlaces.latest:
			d.keepPlacesOnce(places)
		default:
		}
	})
}

func (d *daemon) keepOne(c *config.Config) {
	if err := c.SaveLastGood(); err != nil {
		d.Log.Warn("a start with a broken configuration could not go back to this one", "err", err)
	}
}

func (d *daemon) keepPlacesOnce(places []config.UsedPlace) {
	if err := config.SavePlaces(d.Config.StateDir, places); err != nil {
		d.Log.Warn("a start with other actions could not clear what these have put in", "err", err)
	}
}
