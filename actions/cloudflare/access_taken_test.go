package cloudflare_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// lateRemovals lets requests that remove something come late.
type lateRemovals struct {
	http.RoundTripper
	by time.Duration
}

func (l lateRemovals) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodDelete {
		time.Sleep(l.by)
	}
	return l.RoundTripper.RoundTrip(r)
}

// TestRuleTakenOverWhileItIsRemoved is that a ban that two hosts have goes on when the
// first one's is over, however late the first one removes the rule that has become the
// other's.
func TestRuleTakenOverWhileItIsRemoved(t *testing.T) {
	for name, late := range map[string]time.Duration{"at once": 0, "before": time.Second, "late": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			atEdge(t, fake.Options{}, func(o *cloudflare.Options) {
				byRules(o)
				o.Transport = lateRemovals{o.Transport, late}
			}, func(e *edge) {
				e.ban("192.0.2.1/32", 25*time.Minute)
				e.after(time.Minute)
				second := &edge{T: e.T, server: e.server}
				second.start(func(o *cloudflare.Options) { byRules(o); o.Instance = "web-2" })
				defer second.end()
				second.ban("192.0.2.1/32", time.Hour)
				e.after(24*time.Minute + 30*time.Second)
				if late < ownerTime {
					e.hasRules(fake.AccountID, "192.0.2.1")
				}
				e.after(3 * time.Minute)
				e.hasRules(fake.AccountID, "192.0.2.1")
				e.after(time.Hour)
				e.hasRules(fake.AccountID)
			})
		})
	}
}

// ownerTime is how long who takes a rule over leaves it to the host that it was of.
const ownerTime = 5 * time.Second
