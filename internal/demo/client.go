package main

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/tailban/tailban/internal/netlab"
)

// client is one that asks for pages.
type client struct {
	addr   netip.Addr
	http   *http.Client
	url    string
	header http.Header // sent with each request
}

// newClient is one that asks a server from an address of its namespace, and waits so
// long for an answer.
func newClient(ns *netlab.NS, server, addr netip.Addr, patience time.Duration) *client {
	return &client{
		addr: addr,
		http: &http.Client{
			Timeout:   patience,
			Transport: &http.Transport{DialContext: ns.DialerFrom(addr), DisableKeepAlives: true},
		},
		url:    "http://" + netip.AddrPortFrom(server, 80).String() + "/",
		header: http.Header{},
	}
}

// get asks for a page. It reports false if none came.
func (c *client) get(ctx context.Context) bool { return c.ask(ctx) == http.StatusOK }

// ask asks for a page and returns the status of the answer; 0: none came.
func (c *client) ask(ctx context.Context) int {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return 0
	}
	req.Header = c.header.Clone()
	resp, err := c.http.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
