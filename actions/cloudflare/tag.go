package cloudflare

import (
	"strings"
	"time"
)

// product is what the comment of an item of ours begins with. Who finds it on an
// item whose time is over may remove it.
const product = "tailban/"

// maxInstance is how long the name of an instance may be.
const maxInstance = 64

// tag is what the comment of an item of ours says.
type tag struct {
	instance string
	until    time.Time // whole seconds, UTC
}

// String is the comment: "tailban/web-1 until=2026-12-01T10:00:00Z".
func (t tag) String() string {
	return product + t.instance + " until=" + t.until.UTC().Format(time.RFC3339)
}

// parseTag reads a comment. What is not exactly a tag is somebody else's, however
// it begins.
func parseTag(comment string) (t tag, ours bool) {
	rest, ok := strings.CutPrefix(comment, product)
	if !ok {
		return tag{}, false
	}
	instance, end, ok := strings.Cut(rest, " until=")
	if !ok || !isInstance(instance) {
		return tag{}, false
	}
	until, err := time.Parse(time.RFC3339, end)
	if err != nil {
		return tag{}, false
	}
	t = tag{instance, until}
	return t, t.String() == comment
}

// isInstance reports whether s can be the name of an instance.
func isInstance(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= maxInstance
}

// Instance makes the name of an instance of the name of a host.
func Instance(host string) string {
	name := strings.Map(func(r rune) rune {
		if r < 128 && isInstance(string(r)) {
			return r
		}
		return '-'
	}, host)
	if name == "" {
		return "host"
	}
	return name[:min(len(name), maxInstance)]
}
