package daemon

import (
	"fmt"
	"testing"
)

// refusing decides against a client at every request, also if it is a trusted
// proxy: only the guard stands before it.
const refusing = `
trusted_proxies = ["10.0.0.0/8"]
` + site + denying

func TestRefusalIsSaidOnce(t *testing.T) {
	r := newRig(t, start{config: refusing, actions: []string{"firewall"}})
	r.requests("10.0.0.1", "10.0.0.1", "10.0.0.1")
	if u := r.one(); len(u.Positions) != 1 || u.Len() != 1 {
		t.Errorf("got %+v, want a position only", u)
	}
	if r.action["firewall"].sets != 0 {
		t.Error("a trusted proxy is to be banned")
	}
	r.journal.want(t, 1, "not banned: protected", "target", "10.0.0.1/32", "reason", "trusted proxy")
}

// More refused targets than are remembered, again and again.
func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	r := newRig(t, start{config: refusing, actions: []string{"firewall"}})
	var clients []string
	for i := range maxSaid + 100 {
		clients = append(clients, fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}
	for range 5 {
		r.requests(clients...)
	}
	if n := len(r.journal.said("not banned: protected")); n != perSecond {
		t.Errorf("%d refusals were logged within a second, want %d", n, perSecond)
	}
}
