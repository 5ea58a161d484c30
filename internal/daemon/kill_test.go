package daemon

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// process starts a daemon in a process of its own, with a snapshot as often as
// that.
func (s *siteFiles) process(config string, snapshots time.Duration) *child {
	s.Helper()
	path := filepath.Join(s.dir, "jails.toml")
	check(s, os.WriteFile(path, []byte(config), 0o600))
	c := &child{TB: s, cmd: exec.Command("/proc/self/exe"), journal: &journal{}, output: &strings.Builder{}}
	c.cmd.Env = []string{childEnv + "=" + path, snapshotsEnv + "=" + snapshots.String()}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.journal
	_, err := c.cmd.StdinPipe() // it ends with us
	check(s, err)
	check(s, c.cmd.Start())
	s.Cleanup(func() {
		if !c.ended {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
		if s.Failed() {
			s.Logf("a daemon said:\n%s%s", c.output, c.journal)
		}
	})
	return c
}

// Invariant 4: a daemon that is killed at any instant, again and again, while
// lines come in, has in the end decided what one would have decided that never
// stopped, each of it once. The windows are long compared with a life.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := newSite(t, t.TempDir())
	config := s.config(`
[jails.often]
limit = 9
window = "10m"
ban = ["30s", "2m", "5m"]
[jails.once]
limit = 40
window = "1h"
ban = "1d"
[actions.report]
type = "log"
`)
	c := s.process(config, 200*time.Millisecond)
	wait(t, "a snapshot", func() bool { // before that it would be the first, and begin at the end
		_, err := os.Stat(filepath.Join(s.state, windowsFile))
		return err == nil
	})
	c.stop()

	// The lines are of two hours ago, so that all but the bans of a day goes
	// by the times in them.
	var lines []string
	at := time.Now().Add(-2 * time.Hour)
	for range 8_000 {
		at = at.Add(time.Duration(rnd.IntN(700)) * time.Millisecond)
		lines = append(lines, line(fmt.Sprintf("203.0.113.%d", rnd.IntN(100)), at.Add(-time.Duration(rnd.IntN(60))*time.Second)))
	}
	finished := make(chan struct{})
	go func() { // in pieces that end anywhere
		defer close(finished)
		f, err := os.OpenFile(s.log, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close() //nolint:errcheck // it is read by others
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for rest := strings.Join(lines, ""); rest != ""; {
			<-pace.C
			n := min(len(rest), 1+rand.IntN(900))
			if _, err := f.WriteString(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
	}()
	var journals []*journal
	killed, goneOn := 0, 0
	for done := false; !done; {
		c := s.process(config, 200*time.Millisecond)
		journals = append(journals, c.journal)
		if killed%2 != 0 { // on a busy machine others don't live for as long as that
			c.waitSaid("reading log")
		}
		select {
		case <-time.After(time.Duration(20+rnd.IntN(1500)) * time.Millisecond):
		case <-finished:
			done = true
		}
		check(t, c.cmd.Process.Kill())
		_ = c.wait() // it was killed
		killed++
		for _, x := range c.journal.said("windows go on from a snapshot") {
			if x["bytes_to_read_again"].(float64) > 0 {
				goneOn++
			}
		}
	}
	c = s.process(config, 200*time.Millisecond)
	journals = append(journals, c.journal)
	c.waitSaid("reading log")
	size := int64(len(strings.Join(lines, "")))
	for read := int64(-1); read < size; { // an ordered stop shows how far it has come
		c.stop()
		for _, p := range s.stored().Positions {
			read = p.Offset
		}
		if read < size {
			c = s.process(config, 200*time.Millisecond)
			journals = append(journals, c.journal)
			c.waitSaid("reading log")
		}
	}

	fi, err := os.Stat(s.log)
	check(t, err)
	if fi.Size() != size {
		t.Fatalf("%d bytes are in the log, %d were to be written", fi.Size(), size)
	}
	want := map[state.OffenceKey]state.Offence{}
	lasting := map[state.OffenceKey]int64{} // offsets of the decisions that still ban
	var all []decision
	for _, d := range replayed(t, config, []*written{write(t, filepath.Join(t.TempDir(), "copy"), lines)}) {
		k := state.OffenceKey{Jail: d.jail, Target: pfx(d.target)}
		want[k] = state.Offence{Jail: d.jail, Target: k.Target, Count: want[k].Count + 1}
		if d.jail == "once" {
			lasting[k] = d.offset
		}
		d.ino, d.offence = 0, 0
		all = append(all, d)
	}
	l := s.stored()
	for _, o := range l.Offences {
		if o.Count != want[o.Key()].Count {
			t.Errorf("%s has %d offences in %s, want %d", o.Target, o.Count, o.Jail, want[o.Key()].Count)
		}
		delete(want, o.Key())
	}
	if len(want) > 0 {
		t.Errorf("not decided: %v", want)
	}
	for _, b := range l.Bans {
		for _, o := range b.Owners {
			k := state.OffenceKey{Jail: o.Jail, Target: b.Target}
			if at, ok := lasting[k]; !ok || at != o.Line.Offset {
				t.Errorf("%s is banned by %s because of the line at %d, want %d", b.Target, o.Jail, o.Line.Offset, at)
			}
			delete(lasting, k)
		}
	}
	if len(lasting) > 0 {
		t.Errorf("not banned: %v", lasting)
	}
	for _, j := range journals {
		for _, d := range (&rig{journal: j}).decisions(nil) {
			if d.offence = 0; !slices.Contains(all, d) {
				t.Errorf("decided, but not by one that never stops: %+v", d)
			}
		}
	}
	t.Logf("%d decisions, %d kills, after %d of which lines were read again", len(all), killed, goneOn)
	if goneOn == 0 || len(all) < 100 {
		t.Error("that says too little")
	}
}
