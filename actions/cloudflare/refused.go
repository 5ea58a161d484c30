package cloudflare

import (
	"net/netip"
	"time"

	"github.com/tailban/tailban/actions"
)

const (
	// refusedFor is how long an item that Cloudflare has refused is not tried again:
	// each of them costs a write.
	refusedFor = 6 * time.Hour
	// maxKeptRefused bounds how many are remembered. Others are tried again.
	maxKeptRefused = 10_000
)

// refusals are items that Cloudflare does not take.
type refusals map[netip.Prefix]refusal

type refusal struct {
	err error
	at  time.Time
}

// of is why a target is refused; nil: it isn't.
func (r refusals) of(target netip.Prefix, now time.Time) error {
	if x, ok := r[target]; ok && now.Sub(x.at) < refusedFor {
		return x.err
	}
	return nil
}

func (r refusals) note(x actions.Rejection, now time.Time) {
	if len(r) >= maxKeptRefused {
		for target, old := range r {
			if now.Sub(old.at) >= refusedFor {
				delete(r, target)
			}
		}
	}
	if len(r) < maxKeptRefused {
		r[x.Target] = refusal{x.Err, now}
	}
}
