//go:build linux

package actions

// Somebody else who puts rules above ours is answered so many times in a row, with
// no more than orderCalm comparisons between two of them that found nothing. From
// then on so many comparisons are let pass before the next repair as orderWait
// says at most, more each time.
const (
	orderRepairs = 5
	orderCalm    = 8
	orderWait    = 64
)

// order tells one change of the order of rules from a fight about the first
// place, in which neither side would ever win.
type order struct {
	repairs int // in a row
	calm    int // comparisons since the last that found rules above ours
	pause   int // comparisons between two repairs; 0: there is no fight
	left    int // of these, until the next repair
}

// waits reports whether rules above ours are to be left there for now.
func (o *order) waits() bool { return o.left > 0 }

func (o *order) contested() bool { return o.pause > 0 }

// look notes what a comparison has found, and repaired unless that waits.
func (o *order) look(misplaced bool) {
	if !misplaced {
		if o.calm++; o.calm > orderCalm {
			*o = order{}
		}
		o.left = max(0, o.left-1)
		return
	}
	o.calm = 0
	if o.left > 0 {
		o.left--
		return
	}
	if o.repairs++; o.repairs >= orderRepairs {
		o.pause = min(max(1, 2*o.pause), orderWait)
		o.left = o.pause
	}
}

// Contested implements [Contester].
func (t *Iptables) Contested() bool { return t.contested.Load() }
