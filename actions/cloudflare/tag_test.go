package cloudflare_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
)

func TestTag(t *testing.T) {
	until := time.Date(2026, 12, 1, 10, 0, 0, 900, time.FixedZone("", 3600))
	if got := cloudflare.NewTag("web-1", until); got != "tailban/web-1 until=2026-12-01T09:00:00Z" {
		t.Errorf("the comment is %q", got)
	}
	for _, foreign := range []string{
		"", "tailban", "tailban/", "tailban/web-1", "tailban/web-1 until=", "tailban/web-1 until=soon",
		"tailban/ until=2026-12-01T09:00:00Z", "Tailban/web-1 until=2026-12-01T09:00:00Z", " tailban/web-1 until=2026-12-01T09:00:00Z",
		"tailban/web-1 until=2026-12-01T09:00:00Z and more", "tailban/web 1 until=2026-12-01T09:00:00Z",
		"tailban/web-1 until=2026-12-01T10:00:00+01:00", "tailban/" + strings.Repeat("x", 65) + " until=2026-12-01T09:00:00Z",
	} {
		if tag, ours := cloudflare.ParseTag(foreign); ours {
			t.Errorf("%q is taken for a tag of ours: %v", foreign, tag)
		}
	}
}

func TestInstance(t *testing.T) {
	for _, tt := range [][2]string{
		{"web-1.example.net", "web-1.example.net"}, {"wëb 1", "w-b-1"}, {"", "host"}, {strings.Repeat("x", 80), strings.Repeat("x", 64)},
	} {
		if got := cloudflare.Instance(tt[0]); got != tt[1] {
			t.Errorf("%q is %q, want %q", tt[0], got, tt[1])
		}
	}
}

// FuzzTag is that what is taken for a tag is exactly what we would write.
func FuzzTag(f *testing.F) {
	f.Add("tailban/web-1 until=2026-12-01T09:00:00Z")
	f.Add("tailban/web-1 until=2026-12-01T09:00:00.5Z")
	f.Add("by hand")
	f.Fuzz(func(t *testing.T, comment string) {
		if tag, ours := cloudflare.ParseTag(comment); ours && tag.String() != comment {
			t.Errorf("%q is taken for %q", comment, tag)
		}
	})
}

func FuzzInstance(f *testing.F) {
	f.Add("web-1")
	f.Fuzz(func(t *testing.T, host string) {
		tag := cloudflare.NewTag(cloudflare.Instance(host), time.Unix(0, 0))
		if _, ours := cloudflare.ParseTag(tag); !ours {
			t.Errorf("%q makes %q, which is no tag", host, tag)
		}
	})
}
