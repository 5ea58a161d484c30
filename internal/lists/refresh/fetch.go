package refresh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tailban/tailban/internal/lists"
)

const (
	// Timeout is how long a source may take, redirects and all.
	Timeout = 30 * time.Second

	// maxRedirects is how often a source may say that the ranges are elsewhere.
	maxRedirects = 3

	maxHeader = 64 << 10
	maxTag    = 1 << 10 // bytes of an ETag or Last-Modified that is kept
)

// newClient makes what fetches. A transport of nil is one like any program's: it
// heeds HTTPS_PROXY and trusts whom the system trusts.
func newClient(t http.RoundTripper) *http.Client {
	if t == nil {
		own := &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DisableKeepAlives:      true, // fetches are far apart
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    Timeout,
			MaxResponseHeaderBytes: maxHeader,
		}
		t = own
	}
	return &http.Client{Transport: t, Timeout: Timeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case len(via) > maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		case r.URL.Scheme != "https":
			return errors.New("it leads to where nothing is encrypted")
		}
		return nil
	}}
}

// fetch asks a source for its ranges. have is what it gave before, or nil; the
// result is have if that is still so.
func fetch(ctx context.Context, client *http.Client, source string, have *lists.Fetched) (*lists.Fetched, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return nil, errors.New("the URL can't be used")
	}
	r.Header.Set("User-Agent", "tailban")
	if have != nil && have.ETag != "" {
		r.Header.Set("If-None-Match", have.ETag)
	}
	if have != nil && have.Modified != "" {
		r.Header.Set("If-Modified-Since", have.Modified)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && have != nil:
		return have, nil
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answers with HTTP status %d", resp.StatusCode)
	case resp.ProtoMajor < 2 && resp.ContentLength < 0 && !resp.Uncompressed && !slices.Contains(resp.TransferEncoding, "chunked"):
		return nil, errors.New("the server doesn't say how long its answer is: part of it could be missing")
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, lists.MaxSize+1))
	if err != nil {
		return nil, withoutURL(err)
	}
	file, err := lists.Read(string(text))
	if err != nil {
		return nil, fmt.Errorf("what it sends %w", err)
	}
	ranges, err := file.Ranges()
	if err != nil {
		return nil, fmt.Errorf("what it sends can't be right: %w", err)
	}
	return &lists.Fetched{URL: source, ETag: short(resp.Header.Get("ETag")), Modified: short(resp.Header.Get("Last-Modified")), Ranges: ranges}, nil
}

// withoutURL leaves the URL out of an error, as that is said anyway.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		if of.Timeout() {
			return fmt.Errorf("no whole answer within %v", Timeout)
		}
		return of.Err
	}
	var slow interface{ Timeout() bool }
	if errors.As(err, &slow) && slow.Timeout() {
		return fmt.Errorf("no whole answer within %v", Timeout)
	}
	return err
}

// short is a tag, or none if it is so long that it isn't worth keeping.
func short(tag string) string {
	if len(tag) > maxTag {
		return ""
	}
	return tag
}
