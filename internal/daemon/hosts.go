package daemon

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/resolve"
)

// hostsFile is the name of the file, in the state folder, with the last good
// addresses of host names that are allowed.
const hostsFile = "hosts.json"

// hosts are the host names that are allowed, with what looks them up.
type hosts struct {
	names []string
	*resolve.Hosts
	*part
}

// loadHosts makes the resolver of host names, with the addresses of an earlier
// run: the first lines are read before the DNS has answered.
func (d *daemon) loadHosts() {
	d.hosts = d.newHosts(d.config)
	d.allow.hosts = d.hosts.Known()
	d.guard.UpdateNames(hostEntries(d.allow.hosts))
}

func (d *daemon) newHosts(c *config.Config) *hosts {
	lookup := d.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			// The dot at the end keeps the search list of resolv.conf out.
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
		}
	}
	h := &hosts{names: c.AllowHosts, Hosts: resolve.New(resolve.Options{
		Names: c.AllowHosts, Lookup: lookup, Log: d.Log, Changed: d.hostsChanged,
		File: filepath.Join(d.Config.StateDir, hostsFile),
	})}
	if len(c.AllowHosts) == 0 {
		return h
	}
	if err := h.Load(); err != nil {
		d.Log.Warn("allowed host names are unknown until they are looked up", "err", err)
	}
	return h
}

// start begins to look the names up.
func (h *hosts) start(d *daemon) {
	h.part = startPart(d.serving, func(ctx context.Context) {
		if err := h.Run(ctx); err != nil {
			d.Log.Error("host names are no longer looked up", "err", err)
		}
	})
}

// hostsChanged tells everybody of new addresses of host names.
func (d *daemon) hostsChanged(known []resolve.Host) {
	d.setAllowed(func(l *allowList) { l.hosts = known })
}
