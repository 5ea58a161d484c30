package cloudflare_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// TestErrors is what each way to fail is told as.
func TestErrors(t *testing.T) {
	readOnly := fake.Token{Secret: fake.Secret, Permissions: []fake.Permission{fake.ListsRead}}
	noLists := fake.Token{Secret: fake.Secret, Permissions: []fake.Permission{fake.ZoneWAFEdit}}
	tests := []struct {
		name      string
		options   fake.Options
		change    func(*cloudflare.Options)
		fault     fake.Fault // of all requests
		want      string
		permanent bool
	}{
		{name: "wrong token", change: withToken(strings.Repeat("x", 40)), want: "the token is not accepted", permanent: true},
		{name: "no token at all", change: withToken("short"), want: "the token is not accepted", permanent: true},
		{name: "token can't be read", change: func(o *cloudflare.Options) {
			o.Token = func() (string, error) { return "", errors.New("no such file") }
		}, want: "no such file"},
		{name: "no permission", options: fake.Options{Tokens: []fake.Token{noLists}}, want: "lacks the permission Account > Account Filter Lists > Edit", permanent: true},
		{name: "reads only", options: fake.Options{Tokens: []fake.Token{readOnly}}, want: "create the list: the token lacks the permission Account > Account Filter Lists > Edit", permanent: true},
		{name: "no list", change: func(o *cloudflare.Options) { o.Create = false }, want: `has no list "tailban"`, permanent: true},
		{name: "HTML", fault: fake.BadGateway, want: "HTTP 502: the answer is not the API's, but text/html"},
		{name: "cut", fault: fake.CutAnswer, want: "the answer is cut short"},
		{name: "no success", fault: fake.NoSuccess, want: "HTTP 200, error 10000: internal error"},
		{name: "reset", fault: fake.ResetBefore, want: "connection reset by peer"},
		{name: "429", fault: fake.FalseLimit, want: "too many requests"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fake.New(tt.options)
				if tt.fault != fake.NoFault {
					s.SetFaults(1, tt.fault)
				}
				a := newAction(t, s, tt.change)
				err := a.Prepare(t.Context())
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("the error is %v, want %q", err, tt.want)
				}
				if got := errors.Is(err, actions.ErrPermanent); got != tt.permanent {
					t.Errorf("permanent is %v, want %v: %v", got, tt.permanent, err)
				}
			})
		})
	}
}

func withToken(token string) func(*cloudflare.Options) {
	return func(o *cloudflare.Options) { o.Token = func() (string, error) { return token, nil } }
}

// TestTokenNeverShown sends the token back in every way that an answer has, and in
// errors of the network.
func TestTokenNeverShown(t *testing.T) {
	answers := map[string]roundTrip{
		"message": func(r *http.Request) (*http.Response, error) {
			return answer(400, "application/json", fmt.Sprintf(`{"success":false,"errors":[{"code":1,"message":"bad %s"}]}`, fake.Secret)), nil
		},
		"header": func(r *http.Request) (*http.Response, error) {
			return answer(500, "text/"+fake.Secret, fake.Secret), nil
		},
		"network": func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("no route for %v", r.Header)
		},
		"operation": func(r *http.Request) (*http.Response, error) {
			return answer(200, "application/json", `{"success":true,"errors":[],"result":"`+fake.Secret+`"}`), nil
		},
		"redirect": func(r *http.Request) (*http.Response, error) {
			res := answer(302, "text/html", "")
			res.Header.Set("Location", "https://elsewhere.example/"+fake.Secret)
			return res, nil
		},
	}
	for name, f := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAction(t, fake.New(fake.Options{}), func(o *cloudflare.Options) { o.Transport = f })
				err := a.Prepare(t.Context())
				if err == nil {
					t.Fatal("no error")
				}
				for e := err; e != nil; e = errors.Unwrap(e) {
					if text := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(text, fake.Secret) {
						t.Errorf("the token is in %s", text)
					}
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, kind, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}
}

// TestStopsCalling is that nothing is asked for minutes after the token was refused,
// and that another token is tried at once.
func TestStopsCalling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fake.New(fake.Options{})
		token := strings.Repeat("x", 40)
		a := newAction(t, s, func(o *cloudflare.Options) { o.Token = func() (string, error) { return token, nil } })
		for range 10 {
			if err := a.Prepare(t.Context()); !errors.Is(err, actions.ErrPermanent) {
				t.Fatalf("the error is %v", err)
			}
			time.Sleep(20 * time.Second)
		}
		if log, _ := s.Requests(); len(log) != 1 {
			t.Errorf("%d requests with a token that was refused, want 1", len(log))
		}
		token = fake.Secret
		if err := a.Prepare(t.Context()); err != nil {
			t.Errorf("with another token: %v", err)
		}
	})
}

// TestFalseAuth is that a good token that is refused once is tried again soon.
func TestFalseAuth(t *testing.T) {
	atEdge(t, fake.Options{}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", time.Hour)
		e.after(30 * time.Second)
		e.server.FailNext("POST", "/items", fake.FalseAuth)
		e.ban("192.0.2.2/32", time.Hour)
		e.after(time.Minute)
		e.holds("192.0.2.1", "192.0.2.2")
	})
}

// TestLimited is that the account's own limit is waited for, as long as it says.
func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fake.New(fake.Options{Limits: fake.Limits{Requests: 3}})
		a := newAction(t, s, nil)
		var err error
		for range 10 {
			err = a.Prepare(t.Context())
			time.Sleep(10 * time.Second)
		}
		if err == nil || !strings.Contains(err.Error(), "and said to wait for") || errors.Is(err, actions.ErrPermanent) {
			t.Errorf("the error is %v", err)
		}
		if log, _ := s.Requests(); len(log) != 4 {
			t.Errorf("%d requests, want 4", len(log))
		}
		time.Sleep(5 * time.Minute)
		if err := a.Prepare(t.Context()); err != nil {
			t.Errorf("after the time: %v", err)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	const date = "Mon, 30 Nov 2026 12:00:00 GMT"
	tests := []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"30", 30 * time.Second},
		{" 1.5 ", 1500 * time.Millisecond},
		{"-5", 0},
		{"NaN", 0},
		{"Inf", 10 * time.Minute},
		{"1e300", 10 * time.Minute},
		{"99999999999999999999", 10 * time.Minute},
		{"Mon, 30 Nov 2026 12:01:00 GMT", time.Minute},
		{"Mon, 30 Nov 2026 11:59:00 GMT", 0},
		{"Tue, 01 Dec 2026 12:00:00 GMT", 10 * time.Minute},
		{"soon", 0},
	}
	for _, tt := range tests {
		if got := cloudflare.RetryAfter(http.Header{"Retry-After": {tt.header}}, date); got != tt.want {
			t.Errorf("%q is %v, want %v", tt.header, got, tt.want)
		}
	}
}

// TestInvalidItem is that one item that Cloudflare refuses does not keep the others.
func TestInvalidItem(t *testing.T) {
	atEdge(t, fake.Options{ShortIPv6: true}, nil, func(e *edge) {
		e.ban("192.0.2.1/32", time.Hour)
		e.ban("2001:db8::1/128", time.Hour)
		e.ban("2001:db8::2/128", time.Hour)
		e.ban("2001:db8:0:5::/64", time.Hour)
		e.after(time.Minute)
		e.holds("192.0.2.1", "2001:db8:0:5::/64")
		if s := e.reconciler.Stats(); s.Failing || s.Rejected != 2 {
			e.Errorf("stats are %+v", s)
		}
	})
}

// TestUnfit is which targets can't be banned there at all, and that these cost
// nothing.
func TestUnfit(t *testing.T) {
	protected := func(p netip.Prefix) (string, bool) { return "ours", p == prefix("198.51.100.1/32") }
	atEdge(t, fake.Options{}, func(o *cloudflare.Options) { o.Protected = protected }, func(e *edge) {
		e.after(time.Minute)
		unfit := map[string]error{
			"10.0.0.0/7": actions.ErrUnsupported, "2000::/11": actions.ErrUnsupported,
			"198.51.100.1/32": actions.ErrProtected,
		}
		for target, want := range unfit {
			err := e.action.Apply(e.Context(), []actions.Entry{{Target: prefix(target), Left: time.Hour}}, nil)
			if !errors.Is(err, want) {
				e.Errorf("%s: the error is %v, want %v", target, err, want)
			}
		}
		e.holds()
		if n := e.requests("POST", "/items"); n > 0 {
			e.Errorf("%d writes for what can't be banned", n)
		}
	})
}

// TestBusy is that the write of another host is waited for, with and without a hint
// how long.
func TestBusy(t *testing.T) {
	for _, retry := range []int{0, 7} {
		atEdge(t, fake.Options{PendingRetry: retry, Delay: 20 * time.Second}, nil, func(e *edge) {
			other := newAction(e.T, e.server, func(o *cloudflare.Options) { o.Instance = "web-2" })
			e.after(time.Minute)
			done := make(chan error)
			go func() {
				ctx, cancel := context.WithTimeout(e.Context(), 5*time.Minute)
				defer cancel()
				err := other.Prepare(ctx)
				done <- errors.Join(err, other.Apply(ctx, []actions.Entry{{Target: prefix("198.51.100.1/32"), Left: time.Hour}}, nil))
			}()
			e.after(time.Second)
			e.ban("192.0.2.1/32", time.Hour)
			e.after(2 * time.Minute)
			if err := <-done; err != nil {
				e.Errorf("the other: %v", err)
			}
			e.holds("192.0.2.1", "198.51.100.1")
			if s := e.reconciler.Stats(); s.Failing || s.Applies != 1 {
				e.Errorf("stats are %+v", s)
			}
			e.said("not enforced", 0)
		})
	}
}

// TestBusyAsLongAsSaid is that a write that is told for how long to wait is not tried
// before.
func TestBusyAsLongAsSaid(t *testing.T) {
	atEdge(t, fake.Options{PendingRetry: 30, Delay: 50 * time.Second}, nil, func(e *edge) {
		e.after(time.Minute)
		second := &edge{T: e.T, server: e.server}
		second.start(func(o *cloudflare.Options) { o.Instance = "web-2" })
		defer second.end()
		second.ban("192.0.2.2/32", time.Hour)
		e.after(time.Second)
		e.ban("192.0.2.1/32", time.Hour)
		e.after(2 * time.Minute)
		e.holds("192.0.2.1", "192.0.2.2")
		if n := e.requests("POST", "/items"); n > 4 { // one of the other, two that were refused, and ours
			e.Errorf("it took %d writes", n)
		}
	})
}
