package detector

import (
	"sort"
	"time"
)

// lateSlack is how many events in a row, beyond the limit, may come too late
// for their key's window before it is taken that the log's clock was set back
// and the key starts afresh.
const lateSlack = 8

// maxReach is how late an event may come at most, if its window is shorter.
const maxReach = int64(10 * time.Minute)

// reach is how much older than its key's latest event an event may be and
// still count: a window, and for short ones up to sixty of them or ten
// minutes, as some servers log the beginning of a request at its end.
func reach(span int64) int64 { return max(span, min(60*span, maxReach)) }

// window is the exact sliding window of one key: the times of its events,
// ascending, in nanoseconds.
//
// With T the latest, times in (T − 2·span, T] matter: an event that is late by
// less than a span counts exactly, and its own window reaches one span further
// back. As no window has ever held more than limit events without being
// consumed, those are at most 2·limit. Once a key has shown an event that is
// later still, all times that its reach can bring into a window are kept, so
// that a client cannot hide by being slow.
type window struct {
	times []int64
	late  int32 // events in a row that came too late to count
	slow  bool  // an event was late by a span or more
}

// maxTimes is the most times a window has room for: those that can matter, and
// a quarter of room so that moving stays cheap.
func maxTimes(span int64, limit int, slow bool) int {
	spans := int((keep(span, slow) + span - 1) / span)
	return limit*(spans+spans/3+1) + 4
}

// keep is how far behind the latest time others are kept.
func keep(span int64, slow bool) int64 {
	if slow {
		return reach(span) + span
	}
	return 2 * span
}

// outcome says what became of an event in its window.
type outcome uint8

const (
	kept     outcome = iota // counted, within the limit
	tooLate                 // older than the window; not counted
	crossing                // counted, and with it some window holds limit+1
)

// add counts an event at t. On crossing, the event stands at position pos;
// the caller consumes the window or takes the event back.
func (w *window) add(t, span int64, limit int) (o outcome, pos int) {
	if n := len(w.times); n > 0 && t < w.times[n-1] {
		behind := w.times[n-1] - t
		if behind < reach(span) {
			w.late = 0
			if behind >= span && !w.slow {
				w.drop(w.latest(), span)
				w.slow = true
			}
			return w.insert(t, span, limit)
		}
		w.late++
		if int(w.late) <= limit+lateSlack {
			return tooLate, 0
		}
		w.clear()
	}
	w.late = 0
	if len(w.times) == cap(w.times) {
		w.makeRoom(t, span, limit)
	}
	w.times = append(w.times, t)
	last := len(w.times) - 1
	if last >= limit && w.times[last-limit] > t-span {
		return crossing, last
	}
	return kept, 0
}

// insert counts an event that is late but inside the window.
func (w *window) insert(t, span int64, limit int) (outcome, int) {
	if len(w.times) == cap(w.times) {
		w.makeRoom(w.latest(), span, limit)
	}
	i := sort.Search(len(w.times), func(i int) bool { return w.times[i] > t })
	w.times = append(w.times, 0)
	copy(w.times[i+1:], w.times[i:])
	w.times[i] = t
	// Each stored event whose window holds t is tested again.
	for j := i; j < len(w.times) && w.times[j]-span < t; j++ {
		if j >= limit && w.times[j-limit] > w.times[j]-span {
			return crossing, i
		}
	}
	return kept, 0
}

// makeRoom makes room for one more time: by dropping those that no window can
// reach any more, if that frees a quarter, or else by growing.
func (w *window) makeRoom(latest, span int64, limit int) {
	alive := w.times[w.alive(latest, span):]
	if len(alive) < len(w.times) && len(alive) <= cap(w.times)*3/4 {
		w.times = w.times[:copy(w.times, alive)]
		return
	}
	size := max(2, min(2*cap(w.times), maxTimes(span, limit, w.slow)))
	if size <= len(alive) { // the limit has been lowered since
		size = len(alive) + len(alive)/4 + 1
	}
	times := make([]int64, len(alive), size)
	copy(times, alive)
	w.times = times
}

// drop drops times that no window can reach any more, by the latest. They matter
// only if others come that are later, or the latest is taken back: then what is
// known must not depend on how much room there was for more.
func (w *window) drop(latest, span int64) {
	first := w.alive(latest, span)
	w.times = w.times[:copy(w.times, w.times[first:])]
}

// alive returns the position of the first time that a window can reach.
func (w *window) alive(latest, span int64) int {
	return sort.Search(len(w.times), func(i int) bool { return w.times[i] > latest-keep(span, w.slow) })
}

// takeBack removes the event that add reported at pos.
func (w *window) takeBack(pos int, span int64) {
	latest := w.latest()
	w.remove(pos)
	if pos == len(w.times) { // it was the latest
		w.drop(latest, span)
	}
}

func (w *window) remove(pos int) { w.times = append(w.times[:pos], w.times[pos+1:]...) }

func (w *window) clear() { w.times, w.slow = w.times[:0], false }

// latest is the latest time; the window must not be empty.
func (w *window) latest() int64 { return w.times[len(w.times)-1] }
