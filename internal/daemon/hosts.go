package daemon

import (
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/internal/resolve"
)

// hostsFile is the name of the file, in the state folder, with the last good
// addresses of host names that are allowed.
const hostsFile = "hosts.json"

// setAllowTimeout is how long an action may take to hear of new addresses.
const setAllowTimeout = 10 * time.Second

// loadHosts makes the resolver of host names, with the addresses of an earlier
// run: the first lines are read before the DNS has answered.
func (d *daemon) loadHosts() {
	d.allow = newSwap[[]netip.Prefix]()
	lookup := d.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			// The dot at the end keeps the search list of resolv.conf out.
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
		}
	}
	d.hosts = resolve.New(resolve.Options{
		Names: d.Config.AllowHosts, Lookup: lookup, Log: d.Log, Changed: d.hostsChanged,
		File: filepath.Join(d.Config.StateDir, hostsFile),
	})
	if len(d.Config.AllowHosts) == 0 {
		return
	}
	if err := d.hosts.Load(); err != nil {
		d.Log.Warn("allowed host names are unknown until they are looked up", "err", err)
	}
}

// allowed lists all who are allowed.
func (d *daemon) allowed(hosts []resolve.Host) []netip.Prefix {
	out := slices.Clone(d.Config.Allow)
	for _, e := range hostEntries(hosts) {
		out = append(out, e.Prefix)
	}
	return out
}

// hostEntries lists the addresses of host names for the guard.
func hostEntries(hosts []resolve.Host) []guard.Entry {
	var out []guard.Entry
	for _, h := range hosts {
		for _, a := range h.Addresses {
			out = append(out, guard.Entry{Prefix: netip.PrefixFrom(a, a.BitLen()), Reason: "allowed: " + h.Name})
		}
	}
	return out
}

// hostsChanged tells everybody of new addresses of host names: first the
// guard, so that whoever is allowed is not banned from here on, whatever the
// others still know.
func (d *daemon) hostsChanged(hosts []resolve.Host) {
	d.guard.UpdateNames(hostEntries(hosts))
	allow := d.allowed(hosts)
	d.allow.put(allow)
	for _, e := range d.action {
		if action, ok := e.action.(allower); ok {
			d.setAllow(e.name, action, allow)
		}
	}
}

// allower is an action that lets some pass whatever is banned.
type allower interface {
	SetAllow(ctx context.Context, allow []netip.Prefix) error
}

var _ allower = (*actions.Nftables)(nil)

func (d *daemon) setAllow(name string, a allower, allow []netip.Prefix) {
	ctx, cancel := context.WithTimeout(context.Background(), setAllowTimeout)
	defer cancel()
	if err := a.SetAllow(ctx, allow); err != nil {
		d.Log.Warn("new addresses of allowed host names reach this action with its next reconciliation", "action", name, "err", err)
	}
}

// setAllow makes the engine know who is allowed now. Whoever is banned and
// must not be is let go.
func (e *engine) setAllow(allow []netip.Prefix, now time.Time) {
	e.detect.SetAllow(allow)
	e.liftProtected(now)
}
