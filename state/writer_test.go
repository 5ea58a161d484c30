package state

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func positionAt(offset int64) Update {
	p := testPosition(1)
	p.Offset = offset
	return Update{Positions: []Position{p}}
}

func banOf(n int) Update { return Update{Bans: []Ban{testBan(n)}} }

func TestPutDoesNotWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(fakeDisk)
		w := start(t, disk)
		begin := time.Now()
		w.Put(banOf(0))
		hung := <-disk
		for n := range 100 {
			w.Put(banOf(n % 10))
			w.Put(positionAt(int64(n)))
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("puts took %v while the disk hung", took)
		}
		if s := w.Stats(); s.Pending != 1+10+1 || !s.Oldest.Equal(begin) {
			t.Errorf("Stats = %+v, want 12 pending since %v", s, begin)
		}
		close := time.Now()
		hung.answer <- nil
		next := <-disk
		if len(next.Bans) != 10 || len(next.Positions) != 1 || next.Positions[0].Offset != 99 {
			t.Errorf("second commit holds %d bans and positions %+v", len(next.Bans), next.Positions)
		}
		if wait := next.at.Sub(close); wait != 0 {
			t.Errorf("bans waited %v after the disk was free", wait)
		}
		next.answer <- nil
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if s := w.Stats(); s != (WriterStats{Commits: 2}) {
			t.Errorf("Stats = %+v", s)
		}
	})
}

func TestPositionsAloneAreCommittedOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &countingDisk{holds: model{}}
		w := start(t, disk)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := range int64(1000) { // ten seconds
			<-tick.C
			w.Put(positionAt(n))
		}
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		if n := disk.count(); n < 10 || n > 12 {
			t.Errorf("%d commits in 10 s, want one per second", n)
		}
		last := len(disk.commits) - 1 // that one is made at the end
		for i := 1; i < last; i++ {
			if gap := disk.commits[i].Sub(disk.commits[i-1]); gap < DefaultPositionInterval {
				t.Errorf("commits %d and %d are %v apart", i-1, i, gap)
			}
		}
		want := model{}
		want.apply(positionAt(999))
		if got := disk.holds; len(got) != 1 || got[oneKey(want)] != want[oneKey(want)] {
			t.Errorf("disk holds %v, want %v", got, want)
		}
	})
}

func oneKey(m model) string {
	for k := range m {
		return k
	}
	return ""
}

func TestWhatIsUrgentIsCommittedAtOnce(t *testing.T) {
	b := testBan(1)
	for name, urgent := range map[string]Update{
		"ban":   banOf(1),
		"unban": {Unbans: []netip.Prefix{b.Target}},

		"pardon":              {Pardons: []Pardon{testPardon(1)}},
		"forgotten allowance": {ForgetAllowances: []netip.Prefix{b.Target}},
		"hold":                {Holds: []Hold{testHold(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := make(fakeDisk)
				w := start(t, disk, PositionInterval(time.Hour))
				w.Put(positionAt(1))
				(<-disk).answer <- nil
				synctest.Wait()
				w.Put(positionAt(2)) // has to wait an hour, unless
				synctest.Wait()
				begin := time.Now()
				w.Put(urgent)
				c := <-disk
				if wait := c.at.Sub(begin); wait != 0 {
					t.Errorf("waited %v", wait)
				}
				if c.Len() != 2 || len(c.Positions) != 1 || c.Positions[0].Offset != 2 {
					t.Errorf("commit %+v lacks the position put before", c.Update)
				}
				c.answer <- nil
				if err := w.stop(); err != nil {
					t.Errorf("Run: %v", err)
				}
			})
		})
	}
}

func TestFailedCommitIsRepeatedUntilItWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &countingDisk{holds: model{}, err: errors.New("no space left on device")}
		w := start(t, disk)
		want := model{}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for n := range 120 {
			for _, u := range []Update{banOf(n), positionAt(int64(n))} {
				want.apply(u)
				w.Put(u)
			}
			<-tick.C
		}
		if s := w.Stats(); !s.Failing || s.Commits != 0 || s.Pending != 121 {
			t.Errorf("Stats = %+v, want failing with 121 pending", s)
		}
		attempts := disk.count()
		if attempts < 8 || attempts > 20 {
			t.Errorf("%d attempts in two minutes, want a pause that grows up to %v", attempts, maxRetry)
		}
		disk.setErr(nil)
		<-time.After(maxRetry)
		synctest.Wait()
		if s := w.Stats(); s.Failing || s.Pending != 0 || s.Commits != 1 || s.Failures != uint64(attempts) || !s.Oldest.IsZero() {
			t.Errorf("Stats = %+v", s)
		}
		for k, v := range want {
			if disk.holds[k] != v {
				t.Errorf("%s is %q, want %q", k, disk.holds[k], v)
			}
		}
		w.Put(banOf(500)) // and the haste is back
		synctest.Wait()
		if s := w.Stats(); s.Pending != 0 {
			t.Errorf("after recovery a ban waits: %+v", s)
		}
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		logged := w.log.String()
		if strings.Count(logged, "commit failed") != 1 || strings.Count(logged, "commit works again") != 1 || !strings.Contains(logged, "no space left") {
			t.Errorf("log should say once that it fails and once that it works:\n%s", logged)
		}
	})
}

func TestLastCommitAtShutdown(t *testing.T) {
	diskFull := errors.New("no space left on device")
	tests := []struct {
		name    string
		answers []error // to the commit under way and to the last one
		wantErr error
	}{
		{"all works", []error{nil, nil}, nil},
		{"the one under way fails", []error{diskFull, nil}, nil},
		{"the last one fails", []error{nil, diskFull}, diskFull},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := make(fakeDisk)
				w := start(t, disk)
				got := model{}
				w.Put(banOf(1))
				first := <-disk
				w.Put(banOf(2))
				w.cancel()
				w.Put(positionAt(3))
				for i, c := range []func() call{func() call { return first }, func() call { return <-disk }} {
					c := c()
					if tt.answers[i] == nil {
						got.apply(c.Update)
					}
					c.answer <- tt.answers[i]
				}
				err := <-w.done
				if !errors.Is(err, tt.wantErr) || (tt.wantErr == nil) != (err == nil) {
					t.Fatalf("Run: %v, want %v", err, tt.wantErr)
				}
				if tt.wantErr == nil && len(got) != 3 {
					t.Errorf("disk holds %v, want all three", got)
				}
				if s := w.Stats(); (s.Pending == 0) != (tt.wantErr == nil) {
					t.Errorf("Stats = %+v", s)
				}
			})
		})
	}
}

func TestNothingToSaveAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &countingDisk{holds: model{}}
		w := start(t, disk)
		w.Put(Update{})
		synctest.Wait()
		if err := w.stop(); err != nil || disk.count() != 0 {
			t.Errorf("Run: %v after %d commits, want none", err, disk.count())
		}
	})
}

func TestShutdownDoesNotWaitForAHungDisk(t *testing.T) {
	for _, when := range []string{"before", "at the end"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := make(fakeDisk)
				w := start(t, disk, PositionInterval(time.Hour))
				w.Put(banOf(1))
				c := <-disk
				if when == "at the end" {
					c.answer <- nil
					synctest.Wait()
				}
				w.Put(positionAt(2))
				begin := time.Now()
				w.cancel()
				if when == "at the end" {
					c = <-disk
				}
				err := <-w.done
				if !errors.Is(err, ErrHung) {
					t.Errorf("Run: %v, want ErrHung", err)
				}
				if took := time.Since(begin); took != DefaultShutdownTimeout {
					t.Errorf("shutdown took %v, want %v", took, DefaultShutdownTimeout)
				}
				c.answer <- nil // let the goroutine of the commit end
			})
		})
	}
}

func TestHungDiskIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(fakeDisk)
		w := start(t, disk)
		w.Put(banOf(1))
		c := <-disk
		<-time.After(time.Hour)
		c.answer <- nil
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := strings.Count(w.log.String(), "commit takes long"); n != 1 {
			t.Errorf("said %d times, want once:\n%s", n, w.log)
		}
	})
}

func TestWhatCanNeverBeStoredIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &countingDisk{holds: model{}}
		w := start(t, disk)
		w.Put(Update{
			Bans:            []Ban{{Target: testBan(1).Target}, testBan(2)},
			Unbans:          []netip.Prefix{{}},
			Offences:        []Offence{{}},
			ForgetOffences:  []OffenceKey{{}},
			Positions:       []Position{{}},
			ForgetPositions: []PositionKey{{}},

			Pardons:          []Pardon{{Target: testBan(1).Target}},
			ForgetPardons:    []PardonKey{{}},
			Allowances:       []Allowance{{Target: testBan(1).Target}},
			ForgetAllowances: []netip.Prefix{{}},
			Holds:            []Hold{{}},
			ForgetHolds:      []string{""},
		})
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if s := w.Stats(); s.Refused != 12 || s.Pending != 0 || len(disk.holds) != 1 {
			t.Errorf("Stats = %+v with %d records on disk, want 12 refused and one ban stored", s, len(disk.holds))
		}
		if !strings.Contains(w.log.String(), "refused=12") {
			t.Errorf("log does not say so:\n%s", w.log)
		}
	})
}

func TestPutKeepsNothingOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(fakeDisk)
		w := start(t, disk)
		u := banOf(1)
		u.Positions = positionAt(1).Positions
		w.Put(u)
		u.Bans[0].Owners[0].Actions[0] = "changed"
		u.Positions[0].Offset = 2
		c := <-disk
		if got := c.Bans[0].Owners[0].Actions[0]; got != "firewall" {
			t.Errorf("action is %q", got)
		}
		if got := c.Positions[0].Offset; got != 1 {
			t.Errorf("offset is %d", got)
		}
		c.answer <- nil
		if err := w.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// Many goroutines put into a real file through the writer.
func TestWriterIntoStore(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	w := start(t, s)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := range 100 {
				u := banOf(g*100 + n)
				p := testPosition(g)
				p.Offset = int64(n)
				u.Positions = []Position{p}
				w.Put(u)
				w.Stats()
			}
		})
	}
	wg.Wait()
	if err := w.stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	mustClose(t, s)
	_, l := mustOpen(t, path, noon)
	sound(t, l)
	if len(l.Bans) != 400 || len(l.Positions) != 4 {
		t.Fatalf("%d bans and %d positions, want 400 and 4", len(l.Bans), len(l.Positions))
	}
	for _, p := range l.Positions {
		if p.Offset != 99 {
			t.Errorf("position of %d is %d, want 99", p.Ino, p.Offset)
		}
	}
}
