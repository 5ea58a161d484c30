package fakecloudflare_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cloudflare/cloudflare-go/v7/rules"

	"github.com/tailban/tailban/internal/fakecloudflare"
)

func TestTooManyRequestsAreFollowedByFiveMinutesOfRefusal(t *testing.T) {
	o := fakecloudflare.Options{
		Limits: fakecloudflare.Limits{Requests: 10},
		Tokens: []fakecloudflare.Token{
			{Secret: fakecloudflare.Secret, ID: "one"},
			{Secret: "second", ID: "two"},
			{Secret: "third", ID: "three", Owner: "somebody else"},
		},
	}
	run(t, o, func(b *bench) {
		as := func(secret string) error {
			var p rules.ListGetParams
			p.AccountID.Value, p.AccountID.Present = fakecloudflare.AccountID, true
			_, err := rules.NewListService(sdkAs(b.s, secret)...).Get(b.Context(), b.list, p)
			return err
		}
		for i := range 10 {
			if err := as([]string{fakecloudflare.Secret, "second"}[i%2]); err != nil {
				b.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		err := as("second")
		b.refused(err, http.StatusTooManyRequests, 971)
		var e *rules.Error
		if errors.As(err, &e); e.Response.Header.Get("Retry-After") != "300" {
			b.Errorf("Retry-After: %q", e.Response.Header.Get("Retry-After"))
		}
		if err := as("third"); err != nil {
			b.Errorf("another owner: %v", err)
		}
		time.Sleep(5*time.Minute - time.Second)
		b.refused(as(fakecloudflare.Secret), http.StatusTooManyRequests, 971)
		time.Sleep(time.Second)
		if err := as(fakecloudflare.Secret); err != nil {
			b.Errorf("after five minutes: %v", err)
		}
		log, _ := b.s.Requests()
		limited := 0
		for _, r := range log {
			if r.Limited {
				limited++
			}
		}
		if limited != 2 {
			b.Errorf("%d requests marked as limited", limited)
		}
	})
}

func TestRequestsMayGoOnForEverAtTheRateOfTheLimit(t *testing.T) {
	run(t, fakecloudflare.Options{Limits: fakecloudflare.Limits{Requests: 10}}, func(b *bench) {
		for range 100 {
			if _, err := b.getList(b.list); err != nil {
				b.Fatal(err)
			}
			time.Sleep(30 * time.Second)
		}
		log, _ := b.s.Requests()
		if n := fakecloudflare.Peak(log, 5*time.Minute, func(fakecloudflare.Request) int { return 1 }); n != 10 {
			b.Errorf("peak %d", n)
		}
	})
}

func TestTheQuotasOfWritesAndOfItemChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits fakecloudflare.Limits
	}{
		{"writes", fakecloudflare.Limits{Writes: 3}},
		{"changes", fakecloudflare.Limits{ItemChanges: 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run(t, fakecloudflare.Options{Limits: c.limits}, func(b *bench) {
				for range 3 {
					b.done(b.add(items{{"192.0.2.1", ""}, {"192.0.2.2", ""}}))
					time.Sleep(time.Hour)
				}
				_, err := b.add(items{{"192.0.2.3", ""}})
				b.refused(err, http.StatusTooManyRequests, 10040)
				if _, err := b.getList(b.list); err != nil {
					b.Errorf("reading is refused, too: %v", err)
				}
				time.Sleep(9 * time.Hour)
				b.done(b.add(items{{"192.0.2.3", ""}, {"192.0.2.4", ""}}))
				time.Sleep(time.Minute)
				_, err = b.add(items{{"192.0.2.5", ""}})
				b.refused(err, http.StatusTooManyRequests, 10040)
			})
		})
	}
}

func TestWhatAReplacementCosts(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		b.done(b.add(items{{"192.0.2.1", ""}, {"192.0.2.2", ""}, {"192.0.2.3", ""}}))
		time.Sleep(time.Minute)
		b.done(b.replace(items{{"192.0.2.1", ""}, {"192.0.2.9", ""}}))
		time.Sleep(time.Minute)
		b.done(b.remove(b.s.Items("banned")[0].ID))
		log, dropped := b.s.Requests()
		var got []int
		for _, r := range log {
			got = append(got, r.ItemChanges)
		}
		// Two written and two gone: the one that stays is written, too.
		if fmt.Sprint(got) != "[3 4 1]" || dropped != 0 {
			b.Errorf("item changes %v, dropped %d", got, dropped)
		}
	})
}

func TestTheLogIsBounded(t *testing.T) {
	run(t, fakecloudflare.Options{LogSize: 3, LogBody: 4}, func(b *bench) {
		for i := range 5 {
			if i == 3 {
				b.done(b.add(items{{"192.0.2.1", "a comment"}}))
				continue
			}
			if _, err := b.getList(b.list); err != nil {
				b.Fatal(err)
			}
		}
		log, dropped := b.s.Requests()
		if len(log) != 3 || dropped != 2 {
			b.Fatalf("%d entries, %d dropped", len(log), dropped)
		}
		if r := log[1]; r.Method != "POST" || string(r.Body) != `[{"c` || r.BodySize < 30 || r.Operation == "" || !r.Applied || r.Status != 201 {
			b.Errorf("entry %+v", r)
		}
		if r := log[2]; r.Method != "GET" || r.Applied || r.Token == "" || r.Token == fakecloudflare.Secret {
			b.Errorf("entry %+v", r)
		}
	})
}

func TestFaults(t *testing.T) {
	for _, f := range fakecloudflare.AllFaults() {
		if f == fakecloudflare.FailedOperation {
			continue // no answer is wrong with it: below
		}
		t.Run(f.String(), func(t *testing.T) {
			run(t, fakecloudflare.Options{}, func(b *bench) {
				b.s.FailNext("POST", "/items", f)
				if _, err := b.getList(b.list); err != nil {
					b.Fatalf("a request that isn't meant: %v", err)
				}
				ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
				defer cancel()
				_, err := b.addWith(ctx, items{{"192.0.2.1", ""}})
				if err == nil && f != fakecloudflare.NoSuccess {
					b.Error("no error")
				}
				time.Sleep(time.Minute)
				if got := len(b.addresses()) == 1; got != f.Applied() {
					b.Errorf("applied: %v", got)
				}
				log, _ := b.s.Requests()
				last := log[len(log)-1]
				if last.Fault != f || last.Applied != f.Applied() || (last.Status == 0) != (f == fakecloudflare.ResetBefore || f == fakecloudflare.ResetAfter) {
					b.Errorf("log: %+v", last)
				}
				b.done(b.add(items{{"192.0.2.1", "again"}}))
				time.Sleep(time.Minute)
				if got := b.s.Items("banned"); len(got) != 1 || got[0].Comment != "again" {
					b.Errorf("tried again: %+v", got)
				}
			})
		})
	}
}

func TestAnOperationFailsForNoReason(t *testing.T) {
	run(t, fakecloudflare.Options{}, func(b *bench) {
		b.s.FailNext("", "/items", fakecloudflare.FailedOperation)
		op := b.done(b.add(items{{"192.0.2.1", ""}}))
		time.Sleep(time.Minute)
		if state, text := b.state(op); state != "failed" || text == "" || len(b.addresses()) != 0 {
			b.Errorf("state %s, error %q, items %v", state, text, b.addresses())
		}
		b.done(b.add(items{{"192.0.2.1", ""}}))
		time.Sleep(time.Minute)
		if got := b.addresses(); len(got) != 1 {
			b.Errorf("items %v", got)
		}
	})
}

// The same seed and the same requests give the same faults and ids.
func TestFaultsBySeed(t *testing.T) {
	play := func(seed uint64) (out string) {
		run(t, fakecloudflare.Options{Seed: seed}, func(b *bench) {
			b.s.SetFaults(0.05, fakecloudflare.AllFaults()...)
			for range 200 {
				_, _ = b.getList(b.list)
				time.Sleep(time.Second)
			}
			log, _ := b.s.Requests()
			n := 0
			for _, r := range log {
				out += fmt.Sprint(r.Fault, " ", r.Status, "\n")
				if r.Fault != fakecloudflare.NoFault {
					n++
				}
			}
			if n < 50 || n > 150 {
				b.Errorf("%d of 200 failed, about 100 should", n)
			}
			b.s.NoFaults()
			for range 50 {
				if _, err := b.getList(b.list); err != nil {
					b.Fatal(err)
				}
			}
			out += b.list
		})
		return out
	}
	first, again := play(1), play(1)
	if first != again {
		t.Error("one seed, two runs")
	}
	if first == play(2) {
		t.Error("two seeds, one run")
	}
}
