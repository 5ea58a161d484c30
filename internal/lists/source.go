package lists

import (
	"errors"
	"net/netip"
	"net/url"
)

// CheckSource returns why a URL can't be one at which ranges are published, or
// nil. Whoever is on the way could change what isn't encrypted, so that is only
// for a server on this machine.
func CheckSource(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New(`must be a URL like "https://mirror.example.net/googlebot.json"`)
	case u.User != nil:
		return errors.New("must have no user and no password")
	case u.Fragment != "":
		return errors.New("must have nothing behind a #")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && onLoopback(u):
		return nil
	}
	return errors.New("must begin with https:// (http:// only with an address of this machine like 127.0.0.1)")
}

func onLoopback(u *url.URL) bool {
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && a.IsLoopback()
}
