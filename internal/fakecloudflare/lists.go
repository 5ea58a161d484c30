package fakecloudflare

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"time"
)

// A list of addresses. Items are found by what they block; sorted is their order,
// made when it is needed and thrown away by each change.
type list struct {
	id, name, description string
	items                 map[netip.Prefix]*item
	byID                  map[string]*item
	sorted                []*item
	created, modified     time.Time
}

type item struct {
	id                string
	prefix            netip.Prefix
	comment           string
	created, modified time.Time
}

func (l *list) put(it *item) {
	l.items[it.prefix], l.byID[it.id], l.sorted = it, it, nil
}

func (l *list) drop(it *item) {
	delete(l.items, it.prefix)
	delete(l.byID, it.id)
	l.sorted = nil
}

func (l *list) order() []*item {
	if l.sorted == nil {
		l.sorted = make([]*item, 0, len(l.items))
		for _, it := range l.items {
			l.sorted = append(l.sorted, it)
		}
		slices.SortFunc(l.sorted, func(a, b *item) int { return comparePrefix(a.prefix, b.prefix) })
	}
	return l.sorted
}

// covers says whether an address is in the list, alone or in a network.
func (l *list) covers(a netip.Addr) bool {
	for bits := a.BitLen(); bits >= 8; bits-- {
		if p, err := a.Prefix(bits); err == nil && l.items[p] != nil {
			return true
		}
	}
	return false
}

type listJSON struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Kind        string `json:"kind"`
	NumItems    int    `json:"num_items"`
	NumRefs     int    `json:"num_referencing_filters"`
	Created     string `json:"created_on"`
	Modified    string `json:"modified_on"`
}

func (s *Server) showList(a *account, l *list) listJSON {
	return listJSON{
		ID: l.id, Name: l.name, Description: l.description, Kind: "ip", NumItems: len(l.items),
		NumRefs: s.references(a, l.name), Created: s.stamp(l.created), Modified: s.stamp(l.modified),
	}
}

func (s *Server) account(c *call) *account { return s.accounts[c.vars["account"]] }

// list finds the list a path names, or the refusal.
func (s *Server) list(c *call) (*account, *list, *answer) {
	a := s.account(c)
	for _, l := range a.lists {
		if l.id == c.vars["list"] {
			return a, l, nil
		}
	}
	no := refuse(http.StatusNotFound, codeNoList, "could not find list")
	return a, nil, &no
}

// Codes of refusals. That of an invalid address and the two of limits were seen by
// others; the rest are not known and only have to differ.
const (
	codeBadJSON     = 10012
	codeNoList      = 10001
	codeNoItem      = 10002
	codeNoOperation = 10003
	codeBadList     = 10010
	codeNameTaken   = 10011
	codeTooMany     = 10014 // lists, or items
	codeReferenced  = 10015
	codePending     = 10021
	codeBadItem     = 10035
	codeBadCursor   = 10037
	codeRateLimited = 10040
)

func (s *Server) listLists(c *call) answer {
	a := s.account(c)
	out := []listJSON{}
	for _, l := range a.lists {
		out = append(out, s.showList(a, l))
	}
	return ok(out)
}

func (s *Server) getList(c *call) answer {
	a, l, no := s.list(c)
	if no != nil {
		return *no
	}
	return ok(s.showList(a, l))
}

func (s *Server) createList(c *call) answer {
	a := s.account(c)
	var in struct {
		Name, Kind, Description string
	}
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	switch {
	case in.Kind != "ip":
		return refuse(http.StatusBadRequest, codeBadList, "kind %q: this double has lists of kind \"ip\" only", in.Kind)
	case len(in.Name) > 50 || !regexp.MustCompile(`^[a-z0-9_]+$`).MatchString(in.Name):
		return refuse(http.StatusBadRequest, codeBadList, "invalid list name: must match ^[a-z0-9_]+$ and have at most 50 characters")
	case len(in.Description) > 500:
		return refuse(http.StatusBadRequest, codeBadList, "description must have at most 500 characters")
	case slices.ContainsFunc(a.lists, func(l *list) bool { return l.name == in.Name }):
		return refuse(http.StatusBadRequest, codeNameTaken, "a list with this name already exists")
	case len(a.lists) >= s.opt.Limits.Lists:
		return refuse(http.StatusBadRequest, codeTooMany, "maximum number of lists exceeded")
	}
	l := s.newList(in.Name, in.Description, c.now)
	a.lists = append(a.lists, l)
	c.rec.Applied = true
	return ok(s.showList(a, l))
}

func (s *Server) newList(name, description string, now time.Time) *list {
	return &list{
		id: s.newID(), name: name, description: description, created: now, modified: now,
		items: make(map[netip.Prefix]*item), byID: make(map[string]*item),
	}
}

func (s *Server) updateList(c *call) answer {
	a, l, no := s.list(c)
	if no != nil {
		return *no
	}
	var in struct{ Description string }
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	if len(in.Description) > 500 {
		return refuse(http.StatusBadRequest, codeBadList, "description must have at most 500 characters")
	}
	l.description, l.modified = in.Description, c.now
	c.rec.Applied = true
	return ok(s.showList(a, l))
}

func (s *Server) deleteList(c *call) answer {
	a, l, no := s.list(c)
	if no != nil {
		return *no
	}
	if n := s.references(a, l.name); n > 0 {
		return refuse(http.StatusBadRequest, codeReferenced, "list is referenced by %d filters and cannot be deleted", n)
	}
	a.lists = slices.DeleteFunc(a.lists, func(have *list) bool { return have == l })
	c.rec.Applied = true
	return ok(map[string]string{"id": l.id})
}

// decode reads a body that has to be exactly one value with no unknown keys.
func decode(body []byte, into any) *answer {
	if err := strictJSON(body, into); err != nil {
		no := refuse(http.StatusBadRequest, codeBadJSON, "could not parse the request body: %s", err)
		return &no
	}
	return nil
}

func strictJSON(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON value")
	}
	return nil
}
