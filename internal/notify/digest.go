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
	n, most := &d.other, maxOther
	if ev.Kind.urgent() {
		n, most = &d.urgent, maxUrgent
	}
	if *n < most {
		*n++
		d.listed = append(d.listed, ev)
	}
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

// title sums it up for people: "web1: 12 bans, 1 alarm".
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
