package fakecloudflare_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/rules"
	"github.com/google/go-cmp/cmp"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

func TestAnOperationIsDoneAfterItsDelayAndKeepsOthersOut(t *testing.T) {
	run(t, fakecloudflare.Options{Delay: 4 * time.Second, PendingRetry: 3}, func(b *bench) {
		op := b.done(b.add(items{{"192.0.2.1", "a"}, {"2001:DB8::/64", "b"}}))
		for _, want := range []string{"pending", "running"} {
			if got, _ := b.state(op); got != want {
				b.Errorf("state %s, want %s", got, want)
			}
			if got := b.addresses(); len(got) != 0 || !b.s.Pending() {
				b.Errorf("before its end: items %v, pending %v", got, b.s.Pending())
			}
			_, err := b.add(items{{"192.0.2.2", ""}})
			b.refused(err, http.StatusTooManyRequests, 10021)
			time.Sleep(2 * time.Second)
		}
		if got, _ := b.state(op); got != "completed" || b.s.Pending() {
			b.Errorf("at its end: %s, pending %v", got, b.s.Pending())
		}
		if diff := cmp.Diff([]string{"192.0.2.1", "2001:db8::/64"}, b.addresses()); diff != "" {
			b.Error(diff)
		}
		b.done(b.add(items{{"192.0.2.2", ""}}))
	})
}

func TestAQueueOfOperationsIsWorkedOffInItsOrder(t *testing.T) {
	run(t, fakecloudflare.Options{Queue: true, Delay: time.Second}, func(b *bench) {
		b.done(b.add(items{{"192.0.2.1", "first"}}))
		b.done(b.add(items{{"192.0.2.1", "second"}}))
		time.Sleep(time.Second)
		if got := b.s.Items("banned"); got[0].Comment != "first" {
			b.Errorf("after one delay: %+v", got)
		}
		time.Sleep(time.Second)
		if got := b.s.Items("banned"); got[0].Comment != "second" || len(got) != 1 {
			b.Errorf("after two: %+v", got)
		}
	})
}

func TestItemsThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", 501)
	for _, c := range []struct {
		name  string
		short bool
		items items
		ok    bool
	}{
		{name: "addresses", items: items{{"192.0.2.1", ""}, {"2001:db8::1", ""}}, ok: true},
		{name: "shortest networks", items: items{{"10.0.0.0/8", ""}, {"2000::/12", ""}}, ok: true},
		{name: "longest", items: items{{"192.0.2.1/32", ""}, {"2001:db8::1/128", ""}}, ok: true},
		{name: "longest comment", items: items{{"192.0.2.1", long[:500]}}, ok: true},
		{name: "short rule holds", short: true, items: items{{"2001:db8::/64", ""}}, ok: true},
		{name: "nothing", items: items{}, ok: true},
		{name: "too short for IPv4", items: items{{"192.0.2.1", ""}, {"8.0.0.0/7", ""}}},
		{name: "too short for IPv6", items: items{{"2000::/11", ""}}},
		{name: "short rule", short: true, items: items{{"2001:db8::/65", ""}}},
		{name: "short rule, address", short: true, items: items{{"2001:db8::1", ""}}},
		{name: "host bits", items: items{{"192.0.2.1/24", ""}}},
		{name: "mapped", items: items{{"::ffff:192.0.2.1", ""}}},
		{name: "zone", items: items{{"fe80::1%eth0", ""}}},
		{name: "words", items: items{{"example.com", ""}}},
		{name: "range", items: items{{"192.0.2.1-192.0.2.9", ""}}},
		{name: "twice", items: items{{"192.0.2.1", ""}, {"192.0.2.1/32", ""}}},
		{name: "twice by letters", items: items{{"2001:db8::a", ""}, {"2001:DB8::A", ""}}},
		{name: "comment", items: items{{"192.0.2.1", long}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, fakecloudflare.Options{ShortIPv6: c.short}, func(b *bench) {
				_, err := b.add(c.items)
				if c.ok {
					b.done("", err)
				} else {
					b.refused(err, http.StatusBadRequest, 10035)
				}
				time.Sleep(time.Minute)
				want := len(c.items)
				if !c.ok {
					want = 0
				}
				if got := b.addresses(); len(got) != want {
					b.Errorf("items %v, want %d", got, want)
				}
			})
		})
	}
}

func TestAnItemStaysTheSameWhenItIsAddedAgainAndNotWhenAllAreReplaced(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		step := func(op string, err error) fakecloudflare.Item {
			b.Helper()
			b.done(op, err)
			time.Sleep(time.Minute)
			got := b.s.Items("banned")
			if len(got) != 1 {
				b.Fatalf("items %+v", got)
			}
			return got[0]
		}
		first := step(b.add(items{{"192.0.2.1", "a"}}))
		again := step(b.add(items{{"192.0.2.1/32", "b"}}))
		if again.ID != first.ID || again.Comment != "b" || !again.Created.Equal(first.Created) || !again.Modified.After(first.Modified) {
			b.Errorf("added again: %+v after %+v", again, first)
		}
		anew := step(b.replace(items{{"192.0.2.1", "c"}}))
		if anew.ID == first.ID || anew.Comment != "c" {
			b.Errorf("replaced: %+v after %+v", anew, first)
		}
		b.done(b.replace(items{}))
		time.Sleep(time.Minute)
		if got := b.addresses(); len(got) != 0 {
			b.Errorf("replaced by nothing: %v", got)
		}
	})
}

func TestADeletionOfWhatIsNotThere(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		t.Run(fmt.Sprint("ignored ", ignore), func(t *testing.T) {
			run(t, fakecloudflare.Options{IgnoreUnknownID: ignore}, func(b *bench) {
				if err := b.s.AddForeignItems("banned", fakecloudflare.Item{IP: "192.0.2.1"}, fakecloudflare.Item{IP: "192.0.2.2"}); err != nil {
					b.Fatal(err)
				}
				have := b.s.Items("banned")
				_, err := b.remove(have[0].ID, "0123456789abcdef0123456789abcdef")
				if !ignore {
					b.refused(err, http.StatusNotFound, 10002)
				} else {
					b.done("", err)
				}
				time.Sleep(time.Minute)
				// One that goes while the operation waits.
				op := b.done(b.remove(have[1].ID))
				b.s.RemoveItems("banned", "192.0.2.2")
				time.Sleep(time.Minute)
				want := "failed"
				if ignore {
					want = "completed"
				}
				if got, _ := b.state(op); got != want {
					b.Errorf("state %s, want %s", got, want)
				}
			})
		})
	}
}

func TestAListIsFull(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprint("at the request ", early), func(t *testing.T) {
			o := fakecloudflare.Options{FullAtRequest: early, Limits: fakecloudflare.Limits{Items: 3, Lists: 2}}
			run(t, o, func(b *bench) {
				if err := b.s.AddForeignItems("other", fakecloudflare.Item{IP: "198.51.100.1"}); err != nil {
					b.Fatal(err)
				}
				b.done(b.add(items{{"192.0.2.1", ""}, {"192.0.2.2", ""}}))
				time.Sleep(time.Minute)
				b.done(b.add(items{{"192.0.2.2", "still fits"}}))
				time.Sleep(time.Minute)
				op, err := b.add(items{{"192.0.2.3", ""}})
				if early {
					b.refused(err, http.StatusBadRequest, 10014)
				} else {
					b.done(op, err)
					time.Sleep(time.Minute)
					if state, text := b.state(op); state != "failed" || !strings.Contains(text, "maximum number of items") {
						b.Errorf("state %s, error %q", state, text)
					}
				}
				if got := b.addresses(); len(got) != 2 {
					b.Errorf("items %v", got)
				}
				b.done(b.replace(items{{"192.0.2.8", ""}, {"192.0.2.9", ""}}))
			})
		})
	}
}

func TestPagesOfItems(t *testing.T) {
	for _, empty := range []bool{false, true} {
		run(t, fakecloudflare.Options{EmptyAfter: empty, Limits: fakecloudflare.Limits{PageSize: 40}}, func(b *bench) {
			var want []string
			for i := range 100 {
				want = append(want, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}).String())
				if err := b.s.AddForeignItems("banned", fakecloudflare.Item{IP: want[i], Comment: "of another"}); err != nil {
					b.Fatal(err)
				}
			}
			var p rules.ListItemListParams
			p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
			page, err := b.ls.Items.List(b.Context(), b.list, p)
			if err != nil || len(page.Result) != 25 || page.ResultInfo.Cursors.After == "" {
				b.Fatalf("first page: %d items, %+v, %v", len(page.Result), page.ResultInfo, err)
			}
			p.PerPage.Value, p.PerPage.Present = 1000, true
			if page, err = b.ls.Items.List(b.Context(), b.list, p); err != nil || len(page.Result) != 40 {
				b.Fatalf("a page of more than there may be: %d, %v", len(page.Result), err)
			}
			// One before the cursor and one after it come between two pages, and the one
			// that the cursor names goes.
			if err := b.s.AddForeignItems("banned", fakecloudflare.Item{IP: "10.0.0.1"}, fakecloudflare.Item{IP: "192.0.3.0/24"}); err != nil {
				b.Fatal(err)
			}
			b.s.RemoveItems("banned", "192.0.2.39")
			var got []string
			for page != nil {
				for _, it := range page.Result {
					got = append(got, it.IP)
				}
				if page, err = page.GetNextPage(); err != nil {
					b.Fatal(err)
				}
			}
			if diff := cmp.Diff(append(want, "192.0.3.0/24"), got); diff != "" {
				b.Error(diff)
			}
			p.Search.Value, p.Search.Present = "192.0.2.9", true
			all := b.ls.Items.ListAutoPaging(b.Context(), b.list, p)
			n := 0
			for all.Next() {
				n++
			}
			if n != 11 || all.Err() != nil {
				b.Errorf("search found %d, %v", n, all.Err())
			}
			p.Cursor.Value, p.Cursor.Present = "nonsense", true
			_, err = b.ls.Items.List(b.Context(), b.list, p)
			b.refused(err, http.StatusBadRequest, 10037)
		})
	}
}

func TestOneItemAndItsRemoval(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		b.done(b.add(items{{"192.0.2.0/24", "a"}, {"192.0.2.7", "b"}}))
		time.Sleep(time.Minute)
		have := b.s.Items("banned")
		var p rules.ListItemGetParams
		p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
		it, err := b.ls.Items.Get(b.Context(), b.list, have[0].ID, p)
		if err != nil || it.IP != "192.0.2.0/24" || it.Comment != "a" {
			b.Errorf("got %+v, %v", it, err)
		}
		b.done(b.remove(have[0].ID))
		time.Sleep(time.Minute)
		if got := b.addresses(); !slices.Equal(got, []string{"192.0.2.7"}) {
			b.Errorf("left: %v", got)
		}
		_, err = b.ls.Items.Get(b.Context(), b.list, have[0].ID, p)
		b.refused(err, http.StatusNotFound, 10002)
	})
}
