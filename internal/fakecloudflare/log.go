package fakecloudflare

import "time"

// A Request is an entry of the log.
type Request struct {
	At          time.Time
	Method      string
	Path        string
	Query       string
	Body        []byte // the first Options.LogBody bytes
	BodySize    int
	Token       string // the id of the token
	Status      int    // 0: the connection was broken instead
	Code        int    // of the first error in the answer
	Fault       Fault
	Applied     bool   // it changed something, or was taken in as an operation
	Limited     bool   // refused for a quota of requests, writes or item changes
	ItemChanges int    // how much of the quota of item changes it used
	Operation   string // the id of the operation it began
}

// requestLog is a ring.
type requestLog struct {
	entries []Request
	next    int
	dropped int
}

func (l *requestLog) add(r Request, size int) {
	if len(l.entries) < size {
		l.entries = append(l.entries, r)
		return
	}
	l.entries[l.next] = r
	l.next = (l.next + 1) % size
	l.dropped++
}

// Requests gives the log, oldest first; dropped is how many older ones it no longer has.
func (s *Server) Requests() (log []Request, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.log
	return append(append([]Request(nil), l.entries[l.next:]...), l.entries[:l.next]...), l.dropped
}

// Peak is the most that weight adds up to over any length of time in a log:
// what a budget has to be held against.
func Peak(log []Request, length time.Duration, weight func(Request) int) int {
	sum, most, old := 0, 0, 0
	for _, r := range log {
		for ; !log[old].At.After(r.At.Add(-length)); old++ {
			sum -= weight(log[old])
		}
		sum += weight(r)
		most = max(most, sum)
	}
	return most
}
