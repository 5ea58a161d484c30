package fakecloudflare

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// What follows is done by somebody else: a person at the dashboard, another program.
// It is at once, and no part of any quota. Lists are named by their name; the account
// is the first of Options.Accounts.

// An Item is one of a list, as a person sees it.
type Item struct {
	ID       string
	IP       string
	Comment  string
	Created  time.Time
	Modified time.Time
}

func (s *Server) first() *account { return s.accounts[s.opt.Accounts[0].ID] }

func (a *account) named(name string) *list {
	for _, l := range a.lists {
		if l.name == name {
			return l
		}
	}
	return nil
}

// AddList makes an empty list, and gives its id.
func (s *Server) AddList(name, description string) string {
	now := s.lock()
	defer s.mu.Unlock()
	a := s.first()
	l := a.named(name)
	if l == nil {
		l = s.newList(name, description, now)
		a.lists = append(a.lists, l)
	}
	return l.id
}

// DeleteList removes a list, whether rules refer to it or not.
func (s *Server) DeleteList(name string) {
	s.lock()
	defer s.mu.Unlock()
	a := s.first()
	a.lists = slices.DeleteFunc(a.lists, func(l *list) bool { return l.name == name })
}

// AddForeignItems puts items into a list, which is made if it is missing. Their IP and
// Comment count. One that is there already keeps its id. No limit holds for it.
func (s *Server) AddForeignItems(name string, items ...Item) error {
	s.AddList(name, "")
	now := s.lock()
	defer s.mu.Unlock()
	l := s.first().named(name)
	for _, in := range items {
		p, err := parseItem(in.IP, false)
		if err != nil {
			return fmt.Errorf("foreign item %q: %w", in.IP, err)
		}
		it := l.items[p]
		if it == nil {
			it = &item{id: cmp.Or(in.ID, s.newID()), prefix: p, created: now}
		}
		it.comment, it.modified = in.Comment, now
		l.put(it)
	}
	return nil
}

// RemoveItems takes items out of a list by their address; those that aren't there are
// passed over.
func (s *Server) RemoveItems(name string, addresses ...string) {
	s.lock()
	defer s.mu.Unlock()
	l := s.first().named(name)
	if l == nil {
		return
	}
	for _, text := range addresses {
		if p, err := parseItem(text, false); err == nil && l.items[p] != nil {
			l.drop(l.items[p])
		}
	}
}

// Items gives what a list holds by now, in its order.
func (s *Server) Items(name string) []Item {
	s.lock()
	defer s.mu.Unlock()
	l := s.first().named(name)
	if l == nil {
		return nil
	}
	var out []Item
	for _, it := range l.order() {
		out = append(out, Item{it.id, show(it.prefix), it.comment, it.created, it.modified})
	}
	return out
}

// Pending says whether an operation has not come to its end.
func (s *Server) Pending() bool {
	s.lock()
	defer s.mu.Unlock()
	ops := s.first().ops
	return len(ops) > 0 && !ops[len(ops)-1].done
}
