package notify

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// How many events of a message are told one by one. The others are counted.
const (
	maxUrgent = 20
	maxOther  = 20
)

// digest is what has happened since the last message. However much that is, it
// stays as small.
type digest struct {
	from, to      time.Time
	counts        map[Kind]int
	listed        []Event // in the order in which they came
	urgent, other int     // of those listed
}

func (d *digest) add(ev Event) {
	if d.counts == nil {
		d.counts, d.from = map[Kind]int{}, ev.Time
	}
	d.counts[ev.Kind]++
	d.to = ev.Time
	d.list(ev)
}

// list keeps an event to be told one by one, if there is room.
func (d *digest) list(ev Event) {
	n, most := &d.other, maxOther
	if ev.Kind.urgent() {
		n, most = &d.urgent, maxUrgent
	}
	if *n < most {
		*n++
		d.listed = append(d.listed, ev)
	}
}

// and is d with what came later.
func (d *digest) and(later *digest) digest {
	switch {
	case d.total() == 0:
		return *later
	case later.total() == 0:
		return *d
	}
	sum := digest{from: d.from, to: later.to, counts: maps.Clone(d.counts)}
	for k, n := range later.counts {
		sum.counts[k] += n
	}
	for _, ev := range slices.Concat(d.listed, later.listed) {
		sum.list(ev)
	}
	return sum
}

// forget has events from before a time counted only.
func (d *digest) forget(before time.Time) {
	listed := d.listed
	d.listed, d.urgent, d.other = nil, 0, 0
	for _, ev := range listed {
		if !ev.Time.Before(before) {
			d.list(ev)
		}
	}
}

// keep drops all other kinds.
func (d *digest) keep(kinds map[Kind]bool) {
	maps.DeleteFunc(d.counts, func(k Kind, _ int) bool { return !kinds[k] })
	d.listed = slices.DeleteFunc(d.listed, func(ev Event) bool { return !kinds[ev.Kind] })
	d.forget(time.Time{}) // counts them anew
}

// total is how many events there were.
func (d *digest) total() (n int) {
	for _, c := range d.counts {
		n += c
	}
	return n
}

// kinds lists what happened, in the order of Kinds.
func (d *digest) kinds() []Kind {
	return slices.SortedFunc(maps.Keys(d.counts), func(a, b Kind) int {
		return slices.Index(Kinds(), a) - slices.Index(Kinds(), b)
	})
}

// title sums it up for people: "web1: 12 × ban, 1 × alarm".
func (d *digest) title(host string) string {
	s := host + ": "
	for i, k := range d.kinds() {
		if i > 0 {
			s += ", "
		}
		s += strconv.Itoa(d.counts[k]) + " × " + string(k)
	}
	return s
}

// lines are the events for people, and how many are not among them.
func (d *digest) lines() (lines []string, omitted int) {
	for i := range d.listed {
		lines = append(lines, d.listed[i].text())
	}
	return lines, d.total() - len(d.listed)
}
