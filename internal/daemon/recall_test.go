package daemon

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/state"
)

// recalled is a daemon whose lines are kept, so that they can be read again by
// the next one after a kill.
type recalled struct {
	*rig
	config  string
	start   time.Time
	windows *state.Windows
	disk    *disk
	files   []*source.File
	sent    [][]string // since the snapshot, by file
	at      []int64    // where each file stood when it was taken
}

// newRecalled takes a snapshot of a daemon that has counted some lines.
func newRecalled(t *testing.T, config string, counted ...string) *recalled {
	r := &recalled{rig: newRig(t, start{config: config, actions: []string{"firewall"}}), config: config, disk: newDisk()}
	r.start = r.now.Truncate(time.Second)
	r.now = r.start
	second := *r.file
	second.Ino++
	r.files, r.sent, r.at = []*source.File{r.file, &second}, make([][]string, 2), make([]int64, 2)
	for i := range r.files {
		r.send(i)
	}
	r.send(0, counted...)
	r.windows = r.count(r.now).windows()
	for i := range r.sent {
		r.at[i] = int64(len(strings.Join(r.sent[i], "")))
		r.sent[i] = nil
	}
	return r
}

// line is one of a client, that many seconds after the start.
func (r *recalled) line(client string, at int) string {
	return line(client, r.start.Add(time.Duration(at)*time.Second))
}

// send has lines of a file counted.
func (r *recalled) send(file int, lines ...string) {
	from := r.at[file] + int64(len(strings.Join(r.sent[file], "")))
	r.sent[file] = append(r.sent[file], lines...)
	r.take(r.cut(file, from, lines), r.now)
}

func (r *recalled) cut(file int, from int64, lines []string) *source.Batch {
	data := strings.Join(lines, "")
	f := r.files[file]
	next := from + int64(len(data))
	return &source.Batch{File: f, Data: []byte(data), Offset: from, Next: next,
		Position: source.Position{Log: f.Log, Path: f.Path, Dev: f.Dev, Ino: f.Ino, Offset: next}}
}

// later goes on to a moment after the start.
func (r *recalled) later(seconds int) {
	r.now = r.start.Add(time.Duration(seconds) * time.Second)
	r.expire(r.now)
}

// kill starts the next daemon, with that configuration, and has it read again
// what was sent since the snapshot: file by file, the last one first.
func (r *recalled) kill(config string) {
	r.Helper()
	for _, u := range r.took() {
		r.disk.commit(u)
	}
	next := newRig(r.T, start{config: config, actions: []string{"firewall"}, loaded: r.disk.loaded(), windows: r.windows})
	next.now = r.now
	r.rig = next
	for i := len(r.files) - 1; i >= 0; i-- {
		next.take(r.cut(i, r.at[i], nil), r.now)
	}
	for i := len(r.files) - 1; i >= 0; i-- {
		if next.again == nil && len(r.sent[i]) > 0 {
			r.Errorf("file %d is not read again", i)
		}
		next.take(r.cut(i, r.at[i], r.sent[i]), r.now)
	}
	if next.again != nil {
		r.Fatal("lines are waited for still")
	}
	next.journal.want(r.T, 0, "banned")
	next.journal.want(r.T, 0, "windows begin at zero: the snapshot of what was counted can't be used")
}

func jailed(limit, ban string) string {
	return site + "[jails.web]\nlimit = " + limit + "\nwindow = \"60s\"\nban = " + ban + "\n[actions.firewall]\ntype = \"nftables\"\n"
}

// What kept lines from counting has changed since the snapshot: after a kill they
// become what they had become. At the end a line is sent that decides, or not.
func TestWhatKeptLinesFromCounting(t *testing.T) {
	target := pfx(one + "/32")
	for name, tt := range map[string]struct {
		limit, ban string
		more       string // of the configuration
		before     int    // lines at the start, before the snapshot
		since      func(r *recalled)
		last       int // when the last line is sent
		banned     int // bans because of it
	}{
		"unbanned": {"3", `"1h"`, "", 4, func(r *recalled) {
			r.later(2)
			_, err := r.unban(release{target: target}, r.now)
			check(t, err)
			r.send(0, r.line(one, 5), r.line(one, 5), r.line(one, 5))
		}, 6, 1},
		"banned and unbanned": {"3", `"1h"`, "", 0, func(r *recalled) {
			r.send(0, r.line(one, 0), r.line(one, 0), r.line(one, 0), r.line(one, 0))
			r.later(2)
			_, err := r.unban(release{target: target}, r.now)
			check(t, err)
			r.send(0, r.line(one, 5), r.line(one, 5), r.line(one, 5))
		}, 6, 1},
		"banned by hand": {"3", `"1h"`, "", 0, func(r *recalled) {
			_, err := r.ban(order{target: target, length: 10 * time.Second}, r.now)
			check(t, err)
			r.send(0, r.line(one, 5), r.line(one, 5), r.line(one, 5))
			r.later(20)
		}, 21, 0},
		"its network banned by hand": {"3", `"1h"`, "", 0, func(r *recalled) {
			_, err := r.ban(order{target: pfx("192.0.2.0/24"), length: 10 * time.Second}, r.now)
			check(t, err)
			r.send(0, r.line(one, 5), r.line(one, 5), r.line(one, 5))
			r.later(20)
		}, 21, 0},
		"banned by hand and unbanned": {"3", `"1h"`, "", 0, func(r *recalled) {
			_, err := r.ban(order{target: target, length: time.Minute}, r.now)
			check(t, err)
			r.send(0, r.line(one, 5))
			r.later(6)
			_, err = r.unban(release{target: target}, r.now)
			check(t, err)
			r.send(0, r.line(one, 7), r.line(one, 7), r.line(one, 7))
		}, 8, 1},
		"decided late": {"3", `["40s", "41s"]`, "", 0, func(r *recalled) {
			r.send(0, r.line(one, -30), r.line(one, -30), r.line(one, -30), r.line(one, -30)) // banned up to 40
			r.later(20)
			r.send(0, r.line(one, 20), r.line(one, 20), r.line(one, 20))
			r.later(45)
		}, 45, 0},
		"decided late, over": {"3", `["40s", "41s"]`, "", 0, func(r *recalled) {
			r.send(0, r.line(one, -30), r.line(one, -30), r.line(one, -30), r.line(one, -30))
			r.later(45)
			r.send(0, r.line(one, 45), r.line(one, 45), r.line(one, 45))
		}, 45, 1},
		"allowed for a while": {"3", `"1h"`, "", 0, func(r *recalled) {
			r.setAllow(allowed{1, []netip.Prefix{target}}, r.now)
			r.send(0, r.line(one, 0), r.line(one, 0), r.line(one, 0))
			r.setAllow(allowed{2, nil}, r.now)
		}, 1, 0},
		"allowed for a while, and not": {"3", `"1h"`, "", 0, func(r *recalled) {
			r.send(0, r.line(one, 0))
			r.setAllow(allowed{1, []netip.Prefix{target}}, r.now)
			r.send(0, r.line(one, 0), r.line(one, 0))
			r.setAllow(allowed{2, nil}, r.now)
			r.send(0, r.line(one, 0), r.line(one, 0))
		}, 1, 1},
		"its ban made room": {"3", `"1h"`, "max_bans = 2\n", 0, func(r *recalled) {
			_, err := r.ban(order{target: target, length: time.Minute}, r.now)
			check(t, err)
			for _, p := range []string{"192.0.2.77/32", "192.0.2.78/32"} {
				_, err := r.ban(order{target: pfx(p), length: time.Hour}, r.now)
				check(t, err)
			}
			r.send(0, r.line(one, 1), r.line(one, 1), r.line(one, 1))
		}, 1, 1},
		"another file decided": {"2", `["5s", "1h"]`, "", 0, func(r *recalled) {
			r.send(1, r.line(one, 0), r.line(one, 1))
			r.later(2)
			r.send(0, r.line(one, 2)) // banned up to 7
			r.send(1, r.line(one, 3))
			r.later(8)
			r.send(1, r.line(one, 8), r.line(one, 9))
		}, 10, 1},
		"another file decided, and no more": {"2", `["5s", "1h"]`, "", 0, func(r *recalled) {
			r.send(1, r.line(one, 0), r.line(one, 1))
			r.later(2)
			r.send(0, r.line(one, 2))
			r.send(1, r.line(one, 3))
			r.later(8)
			r.send(1, r.line(one, 8))
		}, 9, 0},
		"watched": {"100", `"1h"`, "[jails.look]\nlimit = 1\nwindow = \"60s\"\nban = [\"10s\", \"1h\"]\nmode = \"observe\"\n", 0, func(r *recalled) {
			r.send(0, r.line(one, 0), r.line(one, 0)) // would be banned
			r.later(5)
			r.send(0, r.line(one, 5))
			r.later(15)
		}, 15, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kills := range []int{0, 1, 2} {
				config := tt.more + jailed(tt.limit, tt.ban)
				if strings.HasPrefix(tt.more, "[") {
					config = jailed(tt.limit, tt.ban) + tt.more
				}
				var counted []string
				for range tt.before {
					counted = append(counted, line(one, time.Now().Truncate(time.Second)))
				}
				r := newRecalled(t, config, counted...)
				tt.since(r)
				for range kills {
					r.kill(config)
				}
				before := len(r.journal.said("banned", "client", one))
				r.later(tt.last)
				r.send(0, r.line(one, tt.last))
				if got := len(r.journal.said("banned", "client", one)) - before; got != tt.banned {
					t.Errorf("after %d kills: %d bans, want %d:\n%s", kills, got, tt.banned, r.journal)
				}
			}
		})
	}
}

// The limit is lower after the restart. As after a reload, it is the next line of
// a flood that bans.
func TestLimitLoweredWhileDown(t *testing.T) {
	r := newRecalled(t, jailed("100", `"1h"`))
	for range 60 {
		r.send(0, r.line(one, 0))
	}
	r.send(0, r.line(other, 0))
	r.kill(jailed("10", `"1h"`))
	r.send(0, r.line(one, 0), r.line(other, 0))
	r.journal.want(t, 1, "banned", "client", one)
	r.journal.want(t, 0, "banned", "client", other)
}

// The ladder of a jail that only observes goes on, also where jails share their
// history, and whether its offences are from before the snapshot or since.
func TestObservedLadderGoesOn(t *testing.T) {
	for _, shared := range []string{"", "shared_history = true\n"} {
		config := shared + jailed("1", `["1s", "2h"]`) + "[jails.look]\nlimit = 0\nwindow = \"60s\"\nban = [\"1s\", \"2s\", \"1h\"]\nmode = \"observe\"\nwhere = { path = \"/no\" }\n"
		config = strings.Replace(config, "ban = [\"1s\", \"2h\"]\n", "ban = [\"1s\", \"2h\"]\nmode = \"observe\"\n", 1)
		for _, since := range []bool{false, true} {
			var counted []string
			if !since {
				now := time.Now()
				counted = []string{line(one, now), line(one, now)}
			}
			r := newRecalled(t, config, counted...)
			if since {
				r.send(0, r.line(one, 0), r.line(one, 0))
			}
			r.journal.want(t, 1, "would be banned (observe)", "offence", 1)
			r.later(3)
			r.kill(config)
			r.send(0, r.line(one, 3), r.line(one, 3))
			r.journal.want(t, 1, "would be banned (observe)", "offence", 2)
		}
	}
}

// The number of events that met a jail's conditions is of what is new.
func TestReadAgainIsNotMatched(t *testing.T) {
	r := newRecalled(t, web)
	r.send(0, r.line(other, 0))
	r.kill(web)
	r.send(0, r.line(one, 0))
	if n := r.detect.Fits("web"); n != 1 {
		t.Errorf("%d events met the conditions, one line is new", n)
	}
}
