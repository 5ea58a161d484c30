package fakecloudflare

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// An operation changes items of a list some time after its request was accepted, by
// itself: whether the client is still there makes no difference.
type operation struct {
	id      string
	list    *list
	put     []*item
	replace bool
	remove  []string

	starts, ends time.Time
	doomed       bool // it fails whatever it is
	done         bool
	failure      string
}

// accept takes an operation of n item changes in, or refuses it: one at a time in an
// account, whatever lists they are for.
func (s *Server) accept(c *call, a *account, op *operation, n int) answer {
	if !s.spend(&a.writes, c.now, s.opt.Limits.Writes, 1) {
		return s.limited(c)
	}
	last := c.now
	if k := len(a.ops); k > 0 && !a.ops[k-1].done {
		if !s.opt.Queue || k > maxQueue && !a.ops[k-1-maxQueue].done {
			no := refuse(http.StatusTooManyRequests, codePending, "an outstanding bulk operation is in progress")
			if s.opt.PendingRetry > 0 {
				no.header = map[string]string{"Retry-After": strconv.Itoa(s.opt.PendingRetry)}
			}
			return no
		}
		last = a.ops[k-1].ends
	}
	if s.opt.FullAtRequest {
		if text := s.overflow(a, op); text != "" {
			return refuse(http.StatusBadRequest, codeTooMany, "%s", text)
		}
	}
	if !s.spend(&a.changes, c.now, s.opt.Limits.ItemChanges, n) {
		return s.limited(c)
	}
	delay := s.opt.Delay
	if j := s.opt.DelayJitter; j > 0 {
		delay += time.Duration(s.rng.Int64N(int64(j)))
	}
	op.doomed = c.rec.Fault == FailedOperation
	op.id, op.starts, op.ends = s.newID(), last.Add(delay/2), last.Add(delay)
	a.ops = append(a.ops, op)
	if len(a.ops) > keptOps && a.ops[0].done {
		a.ops = a.ops[1:]
	}
	c.rec.Applied, c.rec.Operation, c.rec.ItemChanges = true, op.id, n
	result := ok(map[string]string{"operation_id": op.id})
	if !s.opt.AcceptWith200 {
		result.status = http.StatusCreated
	}
	return result
}

func (s *Server) limited(c *call) answer {
	c.rec.Limited = true
	return refuse(http.StatusTooManyRequests, codeRateLimited, "you have been ratelimited please wait and try again")
}

// settle does the operations of an account whose time has come.
func (s *Server) settle(a *account, now time.Time) {
	for _, op := range a.ops {
		if op.done || now.Before(op.ends) {
			continue
		}
		op.failure = s.apply(a, op)
		op.done = true
		op.put, op.remove, op.list = nil, nil, nil
	}
}

// apply makes all changes of an operation or none; the text says why not.
func (s *Server) apply(a *account, op *operation) string {
	l := op.list
	if !slices.Contains(a.lists, l) {
		return "list was deleted"
	}
	if op.doomed {
		return "internal error"
	}
	if text := s.overflow(a, op); text != "" {
		return text
	}
	for _, id := range op.remove {
		if l.byID[id] == nil && !s.opt.IgnoreUnknownID {
			return "could not find list item " + id
		}
	}
	for _, id := range op.remove {
		if it := l.byID[id]; it != nil {
			l.drop(it)
		}
	}
	if op.replace {
		clear(l.items)
		clear(l.byID)
		l.sorted = nil
	}
	for _, in := range op.put {
		it := l.items[in.prefix]
		if it == nil {
			it = &item{id: s.newID(), prefix: in.prefix, created: op.ends}
		}
		it.comment, it.modified = in.comment, op.ends
		l.put(it)
	}
	l.modified = op.ends
	return ""
}

// overflow says that an operation would make more items than the account may have.
func (s *Server) overflow(a *account, op *operation) string {
	n := 0
	for _, l := range a.lists {
		if l != op.list || !op.replace {
			n += len(l.items)
		}
	}
	for _, in := range op.put {
		if op.replace || op.list.items[in.prefix] == nil {
			n++
		}
	}
	if max := s.opt.Limits.Items; len(op.put) > 0 && n > max {
		return fmt.Sprintf("maximum number of items across all lists exceeded: %d of %d", n, max)
	}
	return ""
}

func (s *Server) getOperation(c *call) answer {
	for _, op := range s.account(c).ops {
		if op.id != c.vars["op"] {
			continue
		}
		out := map[string]string{"id": op.id}
		switch {
		case op.done && op.failure != "":
			out["status"], out["error"], out["completed"] = "failed", op.failure, s.stamp(op.ends)
		case op.done:
			out["status"], out["completed"] = "completed", s.stamp(op.ends)
		case c.now.Before(op.starts):
			out["status"] = "pending"
		default:
			out["status"] = "running"
		}
		return ok(out)
	}
	return refuse(http.StatusNotFound, codeNoOperation, "could not find bulk operation")
}
