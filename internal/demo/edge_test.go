package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// The edge does what the rules of the zone say by its own clock, and tells the origin
// who asks, whatever the client says of itself.
func TestEdge(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s", r.Header["Cf-Connecting-Ip"], r.Header["X-Forwarded-For"])
	}))
	t.Cleanup(origin.Close)
	c := &clock{}
	api := fake.New(fake.Options{Now: c.now})
	if err := api.AddForeignItems("banned", fake.Item{IP: "203.0.113.66"}, fake.Item{IP: "2001:db8:66::/64"}); err != nil {
		t.Fatal(err)
	}
	_, err := api.AddForeignRule(fake.ZoneID, fake.Rule{Action: "managed_challenge", Expression: fmt.Sprintf(
		"(ip.src in $banned and http.request.timestamp.sec lt %d)", time.Now().Add(time.Minute).Unix())})
	if err != nil {
		t.Fatal(err)
	}
	e := newEdge(api, c, fake.ZoneID, netip.MustParseAddrPort(origin.Listener.Addr().String()), (&net.Dialer{}).DialContext)
	ask := func(from string, want int) string {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = from
		r.Header.Set("CF-Connecting-IP", "192.0.2.1")
		r.Header.Set("X-Forwarded-For", "192.0.2.2")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s gets %d, want %d", from, w.Code, want)
		}
		return w.Body.String()
	}
	if got, want := ask("198.51.100.10:4711", http.StatusOK), "[198.51.100.10] of [192.0.2.2, 198.51.100.10]"; got != want {
		t.Errorf("the origin hears %q, want %q", got, want)
	}
	banned := []string{"203.0.113.66:4711", "[::ffff:203.0.113.66]:4711", "[2001:db8:66::66]:4711"}
	for _, from := range banned {
		ask(from, http.StatusForbidden)
	}
	c.moveOn(time.Minute)
	for _, from := range banned {
		ask(from, http.StatusOK)
	}
}

func TestTell(t *testing.T) {
	t.Parallel()
	id := "/" + strings.Repeat("0a", 16)
	account, zone := "/client/v4/accounts"+id, "/client/v4/zones"+id
	operation := fake.Request{Method: "GET", Path: account + "/rules/lists/bulk_operations" + id, Status: 200}
	tests := []struct {
		log  []fake.Request
		want string
	}{
		{nil, "no request"},
		{[]fake.Request{{Method: "GET", Path: account + "/rules/lists", Status: 200}}, "1 request: GET lists"},
		{[]fake.Request{
			{Method: "GET", Path: account + "/rules/lists" + id, Status: 200},
			{Method: "POST", Path: account + "/rules/lists" + id + "/items", Status: 201, ItemChanges: 2},
			operation, operation,
		}, "4 requests: GET list, POST items (2), 2 × GET operation"},
		{[]fake.Request{
			{Method: "GET", Path: zone + "/rulesets/phases/http_request_firewall_custom/entrypoint", Status: 404},
			{Method: "POST", Path: zone + "/rulesets" + id + "/rules", Status: 504},
			{Method: "PATCH", Path: zone + "/rulesets" + id + "/rules" + id},
			{Method: "GET", Path: account + "/something", Status: 200},
		}, "4 requests: GET rules 404, POST rule 504, PATCH rule 0, GET /accounts/ID/something"},
	}
	for _, x := range tests {
		if got := tell(x.log); got != x.want {
			t.Errorf("it tells %q, want %q", got, x.want)
		}
	}
}
