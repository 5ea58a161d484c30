package main

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/tailban/tailban/internal/netlab"
)

// client is one that asks for pages.
type client struct {
	http *http.Client
	url  string
}

func newClient(ns *netlab.NS, server netip.Addr) *client {
	return &client{
		http: &http.Client{
			Timeout:   patient,
			Transport: &http.Transport{DialContext: ns.Dialer(), DisableKeepAlives: true},
		},
		url: "http://" + server.String() + "/",
	}
}

// get asks for a page. It reports false if no answer came.
func (c *client) get(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return false
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
