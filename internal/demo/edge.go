package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"sync/atomic"
	"time"

	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// clock is Cloudflare's: the API and the edge have one of their own, which can be
// moved on.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time         { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) moveOn(d time.Duration) { c.ahead.Add(int64(d)) }

// edge plays Cloudflare's edge for one zone: it asks the rules of the zone about each
// request, and passes on to the origin what they let through.
type edge struct {
	api   *fake.Server
	clock *clock
	zone  string
	proxy *httputil.ReverseProxy
}

// newEdge is an edge before an origin; dial makes its connections there.
func newEdge(api *fake.Server, c *clock, zone string, origin netip.AddrPort, dial dialer) *edge {
	to := &url.URL{Scheme: "http", Host: origin.String()}
	return &edge{api: api, clock: c, zone: zone, proxy: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
			r.Out.Header.Set("CF-Connecting-IP", clientOf(r.In).String())
		},
		Transport: &http.Transport{DialContext: dial},
		ErrorLog:  log.New(io.Discard, "", 0), // the client sees a 502
	}}
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := e.api.Decide(e.zone, fake.Visit{
		Addr: clientOf(r), At: e.clock.now(), Host: r.Host, Path: r.URL.Path, Method: r.Method, Agent: r.UserAgent(),
	})
	if v.Action != "" { // a challenge is nothing that our clients can meet
		http.Error(w, "the edge says: "+v.Action, http.StatusForbidden)
		return
	}
	e.proxy.ServeHTTP(w, r)
}

// clientOf is who is at the other end of a connection.
func clientOf(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // can't be: the server has made it
	}
	return from.Addr().Unmap().WithZone("")
}
