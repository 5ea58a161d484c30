package fakecloudflare_test

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/option"
	"github.com/cloudflare/cloudflare-go/v7/rules"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

// Many clients over real connections, and people at the dashboard meanwhile: for the
// race detector. Of operations that were taken in, each is done.
func TestManyAtOnce(t *testing.T) {
	s := fakecloudflare.New(fakecloudflare.Options{Queue: true, Delay: time.Nanosecond})
	list := s.AddList("banned", "")
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	b := &bench{t, s, rules.NewListService(append(sdk(s), option.WithBaseURL(srv.URL+"/client/v4/"), option.WithHTTPClient(srv.Client()))...), list}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				if _, err := b.add(items{{fmt.Sprintf("192.0.%d.%d", i, j), ""}}); err != nil {
					t.Error(err)
				}
				if err := s.AddForeignItems("banned", fakecloudflare.Item{IP: fmt.Sprintf("198.51.%d.%d", i, j)}); err != nil {
					t.Error(err)
				}
				s.Change(func(o *fakecloudflare.Options) { o.EmptyAfter = j%2 == 0 })
				s.SetFaults(0, fakecloudflare.BadGateway)
				s.Blocked(netip.MustParseAddr("192.0.2.1"), time.Now())
				s.Requests()
			}
		})
	}
	wg.Wait()
	if got := len(b.addresses()); got != 320 {
		t.Errorf("%d items, want 320", got)
	}
}

// A list of ten thousand is taken in one operation and read in pages.
func TestAListOfTenThousand(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		var all items
		for i := range 10_000 {
			all = append(all, [2]string{fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "a comment of ours"})
		}
		b.done(b.add(all))
		time.Sleep(time.Minute)
		var p rules.ListItemListParams
		p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
		p.PerPage.Value, p.PerPage.Present = 500, true
		pages := b.ls.Items.ListAutoPaging(b.Context(), b.list, p)
		n := 0
		for pages.Next() {
			n++
		}
		if n != 10_000 || pages.Err() != nil {
			b.Errorf("%d items, %v", n, pages.Err())
		}
		log, _ := b.s.Requests()
		if len(log) != 21 || log[0].ItemChanges != 10_000 {
			b.Errorf("%d requests, first %d changes", len(log), log[0].ItemChanges)
		}
	})
}
