package detector

import "net/netip"

// Clear forgets the windows, offences, bans and decisions that wait of all targets inside a prefix,
// for one jail (or DenyName), or for all if jail is empty, and returns how
// many windows and offences that were. Whose bans those that are enforced are
// is not known here, nor whose offences those in a history that several share:
// they are only forgotten for all. [Engine.Unban] ends such a ban.
//
// It is quick for a single target. For a network, and for an IPv6 target as
// long as there are addresses that count for themselves, it looks at
// everything in memory.
func (e *Engine) Clear(target netip.Prefix, jail string) (cleared int) {
	target = target.Masked()
	in := keyOf(target)
	wide := !isTarget(target) || in.bits < 128 && e.windows.hosts+e.hosts+e.hostsPast > 0
	e.clearBans(in, jail, wide)
	e.postponed.clear(in, jail)
	return e.clearWindows(in, jail, wide) + e.clearOffences(in, jail, wide)
}

func (e *Engine) clearWindows(in key, jail string, wide bool) (cleared int) {
	of := make([]bool, len(e.windows.rules))
	for n, r := range e.windows.rules {
		of[n] = r != nil && jail == ""
	}
	if j := e.jail(jail); j != nil {
		of[j.rule] = true
	}
	for n := range of {
		if i := e.windows.find(in.of(uint16(n))); i != noSlot && of[n] {
			e.windows.remove(i)
			cleared++
		}
	}
	if wide {
		for i, k := range e.windows.keys() {
			if of[k.rule] && k.target().in(in) {
				e.windows.remove(i)
				cleared++
			}
		}
	}
	return cleared
}

func (e *Engine) clearOffences(in key, jail string, wide bool) (cleared int) {
	before := e.past.len()
	if wide {
		for k := range e.past.entries {
			if (jail == "" || jail == k.history) && k.in(in) {
				e.past.delete(k)
			}
		}
	} else {
		for history := range e.histories {
			if jail == "" || jail == history {
				e.past.delete(offenceKey{in, history, false})
				e.past.delete(offenceKey{in, history, true})
			}
		}
	}
	return before - e.past.len()
}

func (e *Engine) clearBans(in key, jail string, wide bool) {
	owner := denyID
	if j := e.jail(jail); j != nil {
		owner = j.id
	} else if jail != "" && jail != DenyName {
		return
	}
	switch {
	case wide:
		for bk := range e.bans.entries {
			if (jail == "" || bk.owner == owner) && bk.in(in) {
				e.bans.delete(bk)
			}
		}
	case jail == "":
		e.Unban(in.prefix())
	default:
		e.bans.delete(banKey{in, owner})
	}
}
