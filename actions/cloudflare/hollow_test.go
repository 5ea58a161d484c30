package cloudflare_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/actions/cloudflare"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// says is a transport by which everything is answered with the same text.
type says struct {
	text string
	n    *int
}

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	*s.n++
	h := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(strings.NewReader(s.text)), Request: r}, nil
}

// TestHollowAnswers is that successes that say nothing, or the same again and again,
// upset nothing, and cost no more than others.
func TestHollowAnswers(t *testing.T) {
	for _, result := range []string{
		``, `,"result":null`, `,"result":[]`, `,"result":{}`, `,"result":[null]`, `,"result":[{}]`, `,"result":"x"`, `,"result":{"rules":[null]}`,
		`,"result":[{"id":"1","name":"tailban","kind":"ip","num_items":-5}]`,
		`,"result":[{"id":"1","name":"tailban","kind":"ip","ip":"192.0.2.1"}],"result_info":{"cursors":{"after":"again"}}`,
		`,"result":{"operation_id":"1","status":"pending","id":"1"}`, `,"result_info":null`,
	} {
		t.Run(result, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				a := newAction(t, fake.New(fake.Options{}), func(o *cloudflare.Options) {
					leased(o)
					o.Transport = says{`{"success":true,"errors":[]` + result + `}`, &n}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				_ = a.Prepare(ctx)
				_, _ = a.List(ctx)
				_ = a.Apply(ctx, []actions.Entry{{Target: prefix("192.0.2.1/32"), Left: time.Hour}}, nil)
				_, _ = a.Clear(ctx)
				_, _ = a.Sweep(ctx)
				a.Look(ctx)
				lease, end := context.WithTimeout(t.Context(), time.Minute)
				defer end()
				_ = a.RunLease(lease)
				if n > 200 {
					t.Errorf("it took %d requests", n)
				}
			})
		})
	}
}
