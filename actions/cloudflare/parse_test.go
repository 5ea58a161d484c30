package cloudflare

import (
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// FuzzItem is that nothing that an item may hold upsets what is known of the list,
// and that what is read as a target is written as the same one.
func FuzzItem(f *testing.F) {
	for _, ip := range []string{"192.0.2.1", "192.0.2.0/24", "2001:db8::/64", "::ffff:192.0.2.1", "::ffff:192.0.2.0/120", "fe80::1%eth0", "", "x", "0.0.0.0/0", "192.0.2.1/24"} {
		f.Add(ip, "by hand")
		f.Add(ip, "tailban/web-1 until=2026-12-01T09:00:00Z")
		f.Add(ip, "tailban/web-2 until=2026-12-01T09:00:00Z")
	}
	f.Fuzz(func(t *testing.T, ip, comment string) {
		c := newCache([]rawItem{{"1", ip, comment}, {"2", "192.0.2.1", "by hand"}}, "web-1")
		if n := c.size(); n < 1 || n > 2 {
			t.Errorf("%d items of two", n)
		}
		c.cover(netip.MustParsePrefix("192.0.2.1/32"), time.Unix(0, 0))
		p, ok := parseIP(ip)
		if !ok {
			return
		}
		if again, ok := parseIP(formatIP(p)); !ok || again != p {
			t.Errorf("%q is %v, which is written as %q and read as %v", ip, p, formatIP(p), again)
		}
	})
}

// FuzzDeadline is that only what we would write ourselves is taken for ours.
func FuzzDeadline(f *testing.F) {
	f.Add("(ip.src in $tailban and http.request.timestamp.sec lt 1767225600)")
	f.Add("(ip.src in $tailban and http.request.timestamp.sec lt 1767225600) or true")
	f.Add("(ip.src in $tailban)")
	f.Fuzz(func(t *testing.T, expression string) {
		deadline, ours := deadlineOf(expression, "tailban")
		if r := (&leaseRule{list: "tailban", deadline: deadline}); ours && r.expression() != expression {
			t.Errorf("%q is taken for %q", expression, r.expression())
		}
	})
}

// FuzzAnswer is that no answer, and none of its headers, has us wait for longer than
// we do at most, or is a success that says it is none.
func FuzzAnswer(f *testing.F) {
	f.Add(200, `{"success":true,"errors":[]}`, "", "application/json", "invalid value for ip at position 3: x")
	f.Add(429, `{"success":false,"errors":[{"code":10040,"message":"wait"}]}`, "30", "application/json", "")
	f.Add(502, "<html>", "Mon, 30 Nov 2026 12:01:00 GMT", "text/html; charset=UTF-8", " at position -1")
	f.Fuzz(func(t *testing.T, status int, body, after, kind, message string) {
		h := http.Header{"Retry-After": {after}, "Content-Type": {kind}, "Date": {"Mon, 30 Nov 2026 12:00:00 GMT"}}
		e := judge(&http.Response{StatusCode: status, Header: h}, []byte(body), "secret-token")
		if e == nil {
			if status/100 != 2 {
				t.Errorf("HTTP %d counts as a success", status)
			}
			return
		}
		if e.After < 0 || e.After > maxAfter {
			t.Errorf("%q has us wait for %v", after, e.After)
		}
		_ = e.Error()
		if i, ok := position(message); ok && i < 0 {
			t.Errorf("%q is position %d", message, i)
		}
	})
}
