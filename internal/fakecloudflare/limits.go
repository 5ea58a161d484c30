package fakecloudflare

import "time"

// A window counts what happened within a length of time, exactly: it holds each
// entry until it is too old. What is refused is not added, so that there are never
// more entries than the limit.
type window struct {
	entries []entry
	sum     int
	blocked time.Time // all is refused until then
}

type entry struct {
	at time.Time
	n  int
}

func (w *window) expire(now time.Time, length time.Duration) {
	old := 0
	for old < len(w.entries) && !w.entries[old].at.After(now.Add(-length)) {
		w.sum -= w.entries[old].n
		old++
	}
	w.entries = w.entries[old:]
}

func (w *window) add(now time.Time, n int) {
	w.sum += n
	if k := len(w.entries); k > 0 && w.entries[k-1].at.Equal(now) {
		w.entries[k-1].n += n
		return
	}
	w.entries = append(w.entries, entry{now, n})
}

// room says how many more fit.
func (w *window) room(now time.Time, length time.Duration, limit int) int {
	w.expire(now, length)
	return limit - w.sum
}

// admit counts a request of an owner and says whether it may pass. Cloudflare calls
// its limit a number per five minutes; here it holds for every five minutes there
// are, which is at least as strict as any bucket or fixed period would be.
func (s *Server) admit(owner string, now time.Time) (wait time.Duration, left int) {
	w := s.owners[owner]
	if w == nil {
		w = &window{}
		s.owners[owner] = w
	}
	l := s.opt.Limits
	if now.Before(w.blocked) {
		return w.blocked.Sub(now), 0
	}
	room := w.room(now, l.RequestsWindow, l.Requests)
	if room < 1 {
		*w = window{blocked: now.Add(l.Penalty)}
		return l.Penalty, 0
	}
	w.add(now, 1)
	return 0, room - 1
}

// spend uses n of a quota of ItemsWindow, or says that they don't fit. A request that
// changes items is counted also when another operation keeps it out: it is not known
// whether the real API does so, and a client's budget must not depend on it.
func (s *Server) spend(w *window, now time.Time, limit, n int) bool {
	if w.room(now, s.opt.Limits.ItemsWindow, limit) < n {
		return false
	}
	w.add(now, n)
	return true
}
