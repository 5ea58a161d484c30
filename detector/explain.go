package detector

import (
	"net/netip"
	"slices"
	"sort"
	"strings"
	"time"
)

// Fill is how full a jail's window of a target is at a time.
type Fill struct {
	Jail        string
	Count       int // events within the window that ends then
	Limit       int // that applies to the target
	Window      time.Duration
	First, Last int64 // times of the earliest and the latest of them; 0: there are none
}

// Fill returns how full the window of each jail is at now, in nanoseconds
// since the epoch, in the jails' order. The target is one that
// [Engine.Target] returned. Nothing is changed by it.
func (e *Engine) Fill(target netip.Prefix, now int64) []Fill {
	fills := make([]Fill, 0, len(e.jails))
	for _, j := range e.jails {
		fills = append(fills, e.fill(j, target, now))
	}
	return fills
}

func (e *Engine) fill(j *jail, target netip.Prefix, now int64) Fill {
	f := Fill{Jail: j.Name, Limit: j.limits.of(target.Addr()), Window: j.Window}
	if w := e.windows.look(j.rule, keyOf(target)); w != nil {
		if times := w.within(now-int64(j.Window), now); len(times) > 0 {
			f.Count, f.First, f.Last = len(times), times[0], times[len(times)-1]
		}
	}
	return f
}

// within returns the times that lie after from and not after to.
func (w *window) within(from, to int64) []int64 {
	first := sort.Search(len(w.times), func(i int) bool { return w.times[i] > from })
	end := sort.Search(len(w.times), func(i int) bool { return w.times[i] > to })
	return w.times[first:max(first, end)]
}

// Offences are decisions against a target that count for the length of the
// next.
type Offences struct {
	History string
	Tried   bool // decisions of a rule when it only observed: they never make a ban longer
	Count   int
	Last    int64 // event time of the latest
	Until   int64 // from when on they don't count
}

// Offences returns what is known of earlier offences of a target, by history,
// those of jails that are gone included.
func (e *Engine) Offences(target netip.Prefix) []Offences {
	var out []Offences
	for history := range e.histories {
		for _, tried := range []bool{false, true} {
			if o, ok := e.past.entries[offenceKey{keyOf(target), history, tried}]; ok {
				out = append(out, Offences{history, tried, o.value.count, o.value.last, o.until})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Offences) int { return strings.Compare(a.History, b.History) })
	return out
}
