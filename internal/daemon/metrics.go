package daemon

import (
	"context"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/metrics"
)

// scraped is an address at which metrics can be scraped.
type scraped struct {
	config.Metrics
	*part
	server *metrics.Server
}

// newScraper makes what writes the metrics, for all who ask for them.
func (d *daemon) newScraper() *metrics.Scraper {
	return metrics.NewScraper(metrics.Options{
		Version: d.Version, Started: d.started, Log: d.Log,
		Status: d.Status, Sockets: d.socketCounters,
	})
}

// socketCounters are those of the control sockets, 0 if there are none.
func (d *daemon) socketCounters() control.Counters {
	if d.control == nil {
		return control.Counters{}
	}
	return d.control.Counters()
}

// useMetrics has them scraped from now on where a configuration says. It is called
// by one at a time.
func (d *daemon) useMetrics(c *config.Config) {
	d.mu.Lock()
	old := d.scraped
	d.mu.Unlock()
	if old != nil {
		if old.Metrics == c.Metrics {
			return
		}
		old.stop(sourcePatience)
	}
	var p *scraped
	if c.Metrics.Address.IsValid() {
		s := &metrics.Server{Address: c.Metrics.Address, Exposed: c.Metrics.Exposed, Scraper: d.scraper, Log: d.Log}
		p = &scraped{c.Metrics, startPart(d.serving, s.Run), s}
	}
	d.mu.Lock()
	d.scraped = p
	d.mu.Unlock()
}

// metricsTrouble is since when metrics can't be scraped where the configuration says,
// and why; nil if they can.
func (d *daemon) metricsTrouble() (since time.Time, err error) {
	d.mu.Lock()
	p := d.scraped
	d.mu.Unlock()
	if p == nil {
		return time.Time{}, nil
	}
	return p.server.Failing()
}

// metricsText is what the control sockets have, if the configuration says so.
func (d *daemon) metricsText(ctx context.Context) ([]byte, error) {
	if !d.current().Metrics.Socket {
		return nil, &control.Error{Code: control.CodeNotFound, Message: "metrics are not here", Hint: `metrics = "socket" in the configuration has them here`}
	}
	text, err := d.scraper.Text(ctx)
	if err != nil {
		return nil, &control.Error{Code: control.CodeBusy, Message: "the metrics did not come in time: " + err.Error()}
	}
	return text, nil
}
