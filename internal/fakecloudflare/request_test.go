package fakecloudflare_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/rules"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

// send makes a request that the SDK would not make.
func (b *bench) send(method, path, body string) (status int, answer string, head http.Header) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, "https://cloudflare.test/client/v4"+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+fakecloudflare.Secret)
	res, err := b.s.Transport().RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return res.StatusCode, string(data), res.Header
}

func TestBodiesThatAreRefused(t *testing.T) {
	run(t, fakecloudflare.Options{Limits: fakecloudflare.Limits{Body: 200}}, func(b *bench) {
		if err := b.s.AddForeignItems("banned", fakecloudflare.Item{IP: "192.0.2.1"}); err != nil {
			b.Fatal(err)
		}
		id := b.s.Items("banned")[0].ID
		items := "/accounts/" + fakecloudflare.AccountID + "/rules/lists/" + b.list + "/items"
		for _, c := range []struct {
			method, body string
			status       int
			code         string
		}{
			{"POST", `[{"ip":"192.0.2.2"}]`, 201, ""},
			{"POST", ``, 400, "10012"},
			{"POST", `null`, 400, "10012"},
			{"POST", `{"ip":"192.0.2.2"}`, 400, "10012"},
			{"POST", `[{"ip":"192.0.2.2"}]]`, 400, "10012"},
			{"POST", `[{"ip":"192.0.2.2"}] []`, 400, "10012"},
			{"POST", `[{"ip":"192.0.2.2","until":1}]`, 400, "10012"},
			{"POST", `[{"comment":"no address"}]`, 400, "10035"},
			{"POST", `[` + strings.Repeat(" ", 200) + `]`, 413, "10013"},
			{"DELETE", `{"items":[{"id":"` + id + `"}]}`, 201, ""},
			{"DELETE", `{"items":[]}`, 400, "10035"},
			{"DELETE", `["` + id + `"]`, 400, "10012"},
			{"DELETE", `{"items":[{"id":"` + id + `"},{"id":"` + id + `"}]}`, 400, "10035"},
		} {
			status, answer, _ := b.send(c.method, items, c.body)
			if status != c.status || !strings.Contains(answer, `"code":`+c.code) && c.code != "" {
				b.Errorf("%s %s: %d %s, want %d %s", c.method, c.body, status, answer, c.status, c.code)
			}
			time.Sleep(time.Minute)
			// Whatever was done is as it was.
			b.s.RemoveItems("banned", "192.0.2.2")
			if len(b.s.Items("banned")) == 0 {
				if err := b.s.AddForeignItems("banned", fakecloudflare.Item{ID: id, IP: "192.0.2.1"}); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func TestACursorIsForOneList(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		for _, name := range []string{"banned", "other"} {
			if err := b.s.AddForeignItems(name, fakecloudflare.Item{IP: "192.0.2.1"}, fakecloudflare.Item{IP: "192.0.2.2"}); err != nil {
				b.Fatal(err)
			}
		}
		var p rules.ListItemListParams
		p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
		p.PerPage.Value, p.PerPage.Present = 1, true
		page, err := b.ls.Items.List(b.Context(), b.list, p)
		if err != nil {
			b.Fatal(err)
		}
		p.Cursor.Value, p.Cursor.Present = page.ResultInfo.Cursors.After, true
		if page, err = b.ls.Items.List(b.Context(), b.list, p); err != nil || len(page.Result) != 1 || page.Result[0].IP != "192.0.2.2" {
			b.Errorf("its own: %+v, %v", page, err)
		}
		_, err = b.ls.Items.List(b.Context(), b.s.AddList("other", ""), p)
		b.refused(err, http.StatusBadRequest, 10037)
	})
}

func TestTheLastPageHasNoCursorOrAnEmptyOne(t *testing.T) {
	for empty, want := range map[bool]string{false: `"cursors":{}`, true: `"cursors":{"after":""}`} {
		run(t, fakecloudflare.Options{EmptyAfter: empty}, func(b *bench) {
			_, got, _ := b.send("GET", "/accounts/"+fakecloudflare.AccountID+"/rules/lists/"+b.list+"/items", "")
			if !strings.Contains(got, want) {
				b.Errorf("%s, want %s", got, want)
			}
		})
	}
}

func TestTheClockOfTheAPI(t *testing.T) {
	run(t, fakecloudflare.Options{Skew: -time.Hour}, func(b *bench) {
		want := time.Now().Add(-time.Hour).UTC()
		_, _, head := b.send("GET", "/ips", "")
		if got := head.Get("Date"); got != want.Format(http.TimeFormat) {
			b.Errorf("Date: %s", got)
		}
		if got, err := b.getList(b.list); err != nil || !strings.HasPrefix(got.CreatedOn, want.Format("2006-01-02T15:04:05.")) {
			b.Errorf("list %+v, %v", got, err)
		}
	})
}

// Who waits no longer for a late answer is told so at once.
func TestALateAnswerIsGivenUp(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		start := time.Now()
		for _, d := range []time.Duration{10 * time.Second, time.Minute} {
			b.s.FailNext("", "", fakecloudflare.SlowAnswer)
			ctx, cancel := context.WithTimeout(b.Context(), d)
			var p rules.ListGetParams
			p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
			_, err := b.ls.Get(ctx, b.list, p)
			cancel()
			if gaveUp := errors.Is(err, context.DeadlineExceeded); gaveUp != (d < 30*time.Second) || !gaveUp && err != nil {
				b.Errorf("with %v: %v", d, err)
			}
		}
		if took := time.Since(start); took != 40*time.Second {
			b.Errorf("took %v", took)
		}
	})
}
