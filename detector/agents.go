package detector

import "bytes"

const (
	// maxAgent is how much of a user agent is looked at, in bytes. Servers
	// take headers of several kilobytes; no agent of interest is as long.
	maxAgent = 4096

	// fewNeedles is up to how many needles are faster looked for one by one.
	fewNeedles = 4
)

// agents is a list of texts to be found in user agents without regard to the
// case of ASCII letters. The zero value finds nothing.
type agents struct {
	needles [][]byte
	many    *literals // of all needles, if they are many and looked for by themselves
}

func newAgents(texts []string) agents {
	a := agents{}
	for _, t := range texts {
		a.needles = append(a.needles, appendLower(nil, []byte(t)))
	}
	return a
}

// index has many texts be found in one pass, and takes what that needs from
// room. If there is less they are looked for one by one.
func (a *agents) index(room *int) {
	if len(a.needles) <= fewNeedles || a.many != nil {
		return
	}
	texts := make([]literal, len(a.needles))
	for i, n := range a.needles {
		texts[i] = literal{n, []uint64{1}}
	}
	if a.many = newLiterals(texts, 1, *room); a.many != nil {
		*room -= a.many.size()
	}
}

func (a *agents) empty() bool { return len(a.needles) == 0 }

// in reports whether any of the texts occurs in a user agent, which is in
// lower case.
func (a *agents) in(lower []byte) bool {
	if a.many != nil {
		return a.many.in(lower)
	}
	for _, n := range a.needles {
		if bytes.Contains(lower, n) {
			return true
		}
	}
	return false
}

// appendLower appends s with ASCII letters in lower case.
func appendLower(dst, s []byte) []byte {
	n := len(dst)
	dst = append(dst, s...)
	for i, c := range dst[n:] {
		dst[n+i] = lower(c)
	}
	return dst
}
