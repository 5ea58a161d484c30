package daemon

import (
	"net/netip"
	"testing"
)

// Many addresses of a proxy that nobody trusts count as one; those of a crawler or
// a monitor pass on nobody's requests.
func TestPartiesAreProxies(t *testing.T) {
	t.Parallel()
	m := (*majority)(nil).trusting(nil, 0)
	for addr, want := range map[string]bool{"104.16.0.1": true, "151.101.1.1": true, "66.249.66.1": false, "216.144.248.18": false, "203.0.113.7": false} {
		if _, provider := m.party(netip.MustParseAddr(addr)); provider != want {
			t.Errorf("%s is one of a provider's: %v, want %v", addr, provider, want)
		}
	}
}
