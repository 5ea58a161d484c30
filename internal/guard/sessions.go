package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailban/tailban/internal/sleep"
)

const (
	// linger is how long an address stays protected after its last session
	// ended, so that a connection that dropped can come back.
	linger = 10 * time.Minute

	maxSessions    = 1000     // addresses that are protected at a time
	maxSessionSize = 16 << 10 // bytes of a file of logind's; it writes less than 1 KiB
	maxSessionDir  = 20_000   // names in its folder: logind's SessionsMax= is 8192, with two names each
	maxUtmp        = 4 << 20  // bytes, more than 10,000 records
)

// Sessions keeps the addresses in a set from which somebody is logged in by
// SSH. It goes by what sshd has told logind or utmp after a user had
// authenticated; a connection alone is none.
type Sessions struct {
	set   *Set
	paths Paths
	log   *slog.Logger
	alive func(pid int) bool

	mu      sync.Mutex
	on      bool
	seen    map[netip.Addr]time.Time // when a session from there was last open
	full    bool                     // which has been said, as the next one
	failing bool
}

// NewSessions makes Sessions that protect nobody until [Sessions.Protect].
func NewSessions(set *Set, paths Paths, log *slog.Logger) *Sessions {
	return &Sessions{set: set, paths: paths, log: log, alive: alive, seen: map[netip.Addr]time.Time{}}
}

// alive reports whether there is a process of this number. A signal of number 0
// is never delivered, and needs no right to be: unlike a look into /proc, which
// a service may not see (ProtectProc=).
func alive(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }

// Protect switches on or off that sessions protect. When it returns the set
// says so.
func (s *Sessions) Protect(on bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
	s.look(now)
}

// Look has the set follow the sessions that are open now.
func (s *Sessions) Look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(now)
}

func (s *Sessions) look(now time.Time) {
	if !s.on {
		clear(s.seen)
		s.set.UpdateSessions(nil)
		return
	}
	logins, err := s.logins()
	switch {
	case err == nil:
		s.failing = false
	case !s.failing:
		s.failing = true
		s.log.Warn("cannot see all SSH sessions: addresses of those missed aren't protected", "err", err)
	}
	open := map[netip.Addr]struct{}{}
	for _, l := range logins {
		if _, known := open[l.from]; !known && s.alive(l.pid) {
			open[l.from] = struct{}{}
		}
	}
	s.keep(open, now)
	entries := make([]Entry, 0, len(s.seen))
	for _, a := range slices.SortedFunc(maps.Keys(s.seen), netip.Addr.Compare) {
		entries = append(entries, Entry{netip.PrefixFrom(a, a.BitLen()), "SSH session"})
	}
	s.set.UpdateSessions(entries)
}

// keep takes up the addresses of open sessions. When there are too many, those
// whose sessions have ended make room, the first first; nobody who is logged in
// loses his place to one who comes later.
func (s *Sessions) keep(open map[netip.Addr]struct{}, now time.Time) {
	var fresh, ended []netip.Addr
	for a := range open {
		if _, known := s.seen[a]; known {
			s.seen[a] = now
		} else {
			fresh = append(fresh, a)
		}
	}
	maps.DeleteFunc(s.seen, func(_ netip.Addr, last time.Time) bool { return now.Sub(last) >= linger })
	for a := range s.seen {
		if _, still := open[a]; !still {
			ended = append(ended, a)
		}
	}
	slices.SortFunc(fresh, netip.Addr.Compare)
	slices.SortFunc(ended, func(a, b netip.Addr) int {
		return cmp.Or(s.seen[a].Compare(s.seen[b]), a.Compare(b))
	})
	for _, a := range fresh {
		if len(s.seen) >= maxSessions {
			if len(ended) == 0 {
				s.sayFull(len(open))
				return
			}
			delete(s.seen, ended[0])
			ended = ended[1:]
		}
		s.seen[a] = now
	}
	s.full = false
}

func (s *Sessions) sayFull(open int) {
	if !s.full {
		s.full = true
		s.log.Warn("SSH sessions from too many addresses: the latest aren't protected", "addresses", open, "protected", maxSessions)
	}
}

// logins lists the sessions that logind and utmp tell of. An error is of what
// couldn't be read; the others are listed all the same.
func (s *Sessions) logins() ([]login, error) {
	out, err := logindLogins(s.paths.Sessions)
	if s.paths.Utmp == "" {
		return out, err
	}
	data, err2 := readUpTo(s.paths.Utmp, maxUtmp)
	return append(out, readUtmp(data)...), errors.Join(err, err2)
}

// logindLogins reads the files of a folder. One that vanishes meanwhile, or
// that is no session's, is left out.
func logindLogins(dir string) ([]login, error) {
	if dir == "" {
		return nil, nil
	}
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.ReadDir(maxSessionDir)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var out []login
	var failed error
	for _, e := range names {
		// Beside each session is a pipe (12.ref), and for a moment the file
		// that becomes the session's (.#12…).
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		data, err := readUpTo(filepath.Join(dir, e.Name()), maxSessionSize)
		if err != nil {
			failed = err // one says enough
			continue
		}
		if l, ok := readSession(data); ok {
			out = append(out, l)
		}
	}
	return out, failed
}

// Run keeps the set equal to the sessions, from inotify and by looking again
// from time to time. It blocks until ctx is done.
func (s *Sessions) Run(ctx context.Context) {
	w := newNotify(s.log)
	defer w.close()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		w.follow(s.paths.Sessions, s.paths.Utmp) // before the look, so that no change is missed between
		began := time.Now()
		s.Look(began)
		pause := max(settle, 20*time.Since(began))
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
			sleep.For(ctx, pause)
		case <-tick.C:
		}
	}
}
