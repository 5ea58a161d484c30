package cloudflare_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestOneZoneRefusesRules is that a zone that the token is not for keeps no bans from
// the others, wherever it is named, and is told of.
func TestOneZoneRefusesRules(t *testing.T) {
	for name, zones := range map[string][]string{"first": {noZone, fake.ZoneID}, "last": {fake.ZoneID, noZone}} {
		t.Run(name, func(t *testing.T) {
			atEdge(t, fake.Options{}, func(o *cloudflare.Options) { byRules(o); o.Zones = zones }, func(e *edge) {
				e.ban("192.0.2.1/32", time.Hour)
				e.after(time.Minute)
				e.hasRules(fake.ZoneID, "192.0.2.1")
				e.ban("192.0.2.2/32", 2*time.Hour)
				e.after(time.Minute)
				e.hasRules(fake.ZoneID, "192.0.2.1", "192.0.2.2")
				if s := e.reconciler.Stats(); s.Failing || s.DriftAdded+s.DriftCorrected > 0 {
					e.Errorf("stats are %+v", s)
				}
				if l := e.action.Leases(); len(l) != 1 || l[0].Zone != noZone || l[0].Err == nil || l[0].Since.IsZero() || e.action.Lapsed() != noZone {
					e.Errorf("what is told of zones is %+v", l)
				}
				e.after(3 * time.Hour)
				e.hasRules(fake.ZoneID)
				if n := e.requests("", noZone); n > 3*13 {
					e.Errorf("%d requests in 3 hours for what is refused", n)
				}
				e.said("refuses access rules", 1)
				e.ban("192.0.2.3/32", 5*time.Hour)
				e.server.Change(func(o *fake.Options) { o.Tokens = []fake.Token{{Secret: "none"}} })
				e.after(10 * time.Minute)
				if s := e.reconciler.Stats(); !s.Failing {
					e.Error("that all refuse the token is no failure")
				}
			})
		})
	}
}

// mistyped is a transport that answers for noZone as the API does for an id that no zone
// has (its documented error 7003).
type mistyped struct {
	http.RoundTripper
	status int
}

func (m mistyped) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := m.RoundTripper.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.Path, noZone) {
		refuse(resp, m.status, 7003, "Could not route to "+r.URL.Path+", perhaps your object identifier is invalid?")
	}
	return resp, err
}

// refuse makes an answer one that refuses.
func refuse(resp *http.Response, status, code int, message string) {
	_ = resp.Body.Close()
	resp.StatusCode = status
	resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"success": false, "result": null, "messages": [], "errors": [{"code": %d, "message": %q}]}`, code, message)))
}

// picky is a transport by which one zone refuses rules for one address.
type picky struct{ http.RoundTripper }

func (p picky) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, otherZone) {
		return p.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(string(body), "192.0.2.9") {
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		return p.RoundTripper.RoundTrip(r)
	}
	resp := &http.Response{Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody, Request: r}
	refuse(resp, http.StatusBadRequest, 10008, "firewallaccessrules.api.validation_error:invalid ip provided")
	return resp, nil
}

// TestOneZoneRefusesOneRule is that it is in use all the same, and that the ban counts
// as refused.
func TestOneZoneRefusesOneRule(t *testing.T) {
	options := func(o *cloudflare.Options) {
		byRules(o)
		o.Zones, o.Transport = []string{fake.ZoneID, otherZone}, picky{o.Transport}
	}
	atEdge(t, fake.Options{Accounts: twoZones()}, options, func(e *edge) {
		e.ban("192.0.2.9/32", time.Hour)
		e.ban("192.0.2.1/32", time.Hour)
		e.after(3 * time.Minute)
		e.hasRules(otherZone, "192.0.2.1")
		if l := e.action.Leases(); len(l) > 0 {
			e.Errorf("what is told of zones is %+v", l)
		}
		if s := e.reconciler.Stats(); s.Failing || s.Rejected != 1 {
			e.Errorf("stats are %+v", s)
		}
		e.said("refuses access rules", 0)
		e.after(2 * time.Hour)
		e.hasRules(otherZone)
		e.hasRules(fake.ZoneID)
	})
}

// TestOneZoneIsNone is that one that has been deleted, or is mistyped, keeps no bans from
// the others.
func TestOneZoneIsNone(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest} {
		for name, zones := range map[string][]string{"first": {noZone, fake.ZoneID}, "last": {fake.ZoneID, noZone}} {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				options := func(o *cloudflare.Options) {
					byRules(o)
					o.Zones, o.Transport = zones, mistyped{o.Transport, status}
				}
				atEdge(t, fake.Options{}, options, func(e *edge) {
					e.ban("192.0.2.1/32", time.Hour)
					e.after(time.Minute)
					e.hasRules(fake.ZoneID, "192.0.2.1")
					if s := e.reconciler.Stats(); s.Failing {
						e.Errorf("it fails: %v", s.Err)
					}
					if l := e.action.Leases(); len(l) != 1 || l[0].Zone != noZone || l[0].Err == nil {
						e.Errorf("what is told of zones is %+v", l)
					}
					e.said("refuses access rules", 1)
					e.after(2 * time.Hour)
					e.hasRules(fake.ZoneID)
				})
			})
		}
	}
}

// onePage is a transport that gets the first page of rules, whichever is asked for.
type onePage struct{ http.RoundTripper }

func (p onePage) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); q.Has("page") {
		r = r.Clone(r.Context())
		q.Set("page", "1")
		r.URL.RawQuery = q.Encode()
	}
	return p.RoundTripper.RoundTrip(r)
}

// TestPageOfRulesLeadsToItself is that it fails, and not for ever.
func TestPageOfRulesLeadsToItself(t *testing.T) {
	atEdge(t, fake.Options{}, byRules, func(e *edge) {
		for i := range 600 {
			e.foreign("block", "ip", prefix(address(i)).Addr().String(), "by hand")
		}
		before := e.requests("GET", "/access_rules")
		again := newAction(e.T, e.server, func(o *cloudflare.Options) { byRules(o); o.Transport = onePage{o.Transport} })
		if _, err := again.List(e.Context()); err == nil {
			e.Error("it is no error")
		}
		if n := e.requests("GET", "/access_rules") - before; n > 4 {
			e.Errorf("%d requests", n)
		}
	})
}

// TestRulesOfClocksApart is [TestClocksApart] for access rules.
func TestRulesOfClocksApart(t *testing.T) {
	for _, ahead := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			atEdge(t, fake.Options{}, byRules, func(e *edge) {
				e.ban("192.0.2.1/32", 2*time.Hour)
				e.after(time.Minute)
				second := &edge{T: e.T, server: e.server}
				second.start(func(o *cloudflare.Options) {
					byRules(o)
					o.Instance, o.Now = "web-2", func() time.Time { return time.Now().Add(ahead) }
				})
				defer second.end()
				e.after(time.Minute)
				second.ban("192.0.2.2/32", 2*time.Hour)
				e.after(20 * time.Minute)
				e.hasRules(fake.AccountID, "192.0.2.1", "192.0.2.2")
				if got, want := e.rules(fake.AccountID)["192.0.2.2"], cloudflare.NewTag("web-2", time.Now().Add(100*time.Minute)); got != want {
					e.Errorf("the notes are %q, want %q", got, want)
				}
				e.after(2 * time.Hour)
				e.hasRules(fake.AccountID)
			})
		})
	}
}

// TestRulesOfTheAccountInZones is that rules of the account, with which those of a zone are
// listed, are no zone's: whoever has put them in sees to them, be it this host before.
func TestRulesOfTheAccountInZones(t *testing.T) {
	atEdge(t, fake.Options{}, func(o *cloudflare.Options) { byRules(o); o.Zones = []string{fake.ZoneID} }, func(e *edge) {
		e.foreign("block", "ip", "192.0.2.1", cloudflare.NewTag("web-1", time.Now().Add(-time.Hour)))
		e.foreign("block", "ip", "192.0.2.2", cloudflare.NewTag("web-1", time.Now().Add(time.Hour)))
		e.foreign("block", "ip", "192.0.2.3", cloudflare.NewTag("web-2", time.Now().Add(-time.Hour)))
		e.foreign("whitelist", "ip", "192.0.2.4", "by hand")
		e.ban("192.0.2.4/32", time.Hour)
		e.ban("192.0.2.5/32", time.Hour)
		e.after(30 * time.Minute)
		e.hasRules(fake.ZoneID, "192.0.2.5")
		e.hasRules(fake.AccountID, "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
		if n := e.requests("DELETE", ""); n > 0 {
			e.Errorf("%d requests to remove what is the account's", n)
		}
	})
}
