package fakecloudflare

import (
	"cmp"
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

type itemJSON struct {
	ID       string `json:"id"`
	IP       string `json:"ip"`
	Comment  string `json:"comment,omitempty"`
	Created  string `json:"created_on"`
	Modified string `json:"modified_on"`
}

func (s *Server) showItem(it *item) itemJSON {
	return itemJSON{it.id, show(it.prefix), it.comment, s.stamp(it.created), s.stamp(it.modified)}
}

func (s *Server) getItem(c *call) answer {
	_, l, no := s.list(c)
	if no != nil {
		return *no
	}
	it := l.byID[c.vars["item"]]
	if it == nil {
		return refuse(http.StatusNotFound, codeNoItem, "could not find list item")
	}
	return ok(s.showItem(it))
}

const maxComment = 500

// An entry of a request that adds items.
type newItem struct {
	IP      *string `json:"ip"`
	Comment string  `json:"comment"`
}

// readItems checks the body of a POST or PUT: all of it is taken or nothing.
func (s *Server) readItems(c *call) ([]*item, *answer) {
	var in []newItem
	if no := decode(c.body, &in); no != nil {
		return nil, no
	}
	no := func(at int, what string) *answer {
		a := refuse(http.StatusBadRequest, codeBadItem, "invalid value for ip at position %d: %s", at, what)
		return &a
	}
	if in == nil {
		a := refuse(http.StatusBadRequest, codeBadJSON, "the request body must be an array")
		return nil, &a
	}
	out := make([]*item, 0, len(in))
	seen := make(map[netip.Prefix]bool, len(in))
	for i, e := range in {
		if e.IP == nil {
			return nil, no(i, "filters.api.missing")
		}
		p, err := parseItem(*e.IP, s.opt.ShortIPv6)
		switch {
		case err != nil:
			return nil, no(i, err.Error())
		case seen[p]:
			return nil, no(i, "filters.api.duplicate item "+show(p))
		case len(e.Comment) > maxComment:
			a := refuse(http.StatusBadRequest, codeBadItem, "invalid value for comment at position %d: more than %d characters", i, maxComment)
			return nil, &a
		}
		seen[p] = true
		out = append(out, &item{prefix: p, comment: e.Comment})
	}
	return out, nil
}

func (s *Server) addItems(c *call) answer {
	a, l, no := s.list(c)
	if no != nil {
		return *no
	}
	items, no := s.readItems(c)
	if no != nil {
		return *no
	}
	return s.accept(c, a, &operation{list: l, put: items}, len(items))
}

func (s *Server) replaceItems(c *call) answer {
	a, l, no := s.list(c)
	if no != nil {
		return *no
	}
	items, no := s.readItems(c)
	if no != nil {
		return *no
	}
	// What goes is a change as well as what comes.
	stay := 0
	for _, it := range items {
		if l.items[it.prefix] != nil {
			stay++
		}
	}
	return s.accept(c, a, &operation{list: l, put: items, replace: true}, len(items)+len(l.items)-stay)
}

func (s *Server) removeItems(c *call) answer {
	a, l, no := s.list(c)
	if no != nil {
		return *no
	}
	var in struct {
		Items []struct{ ID string } `json:"items"`
	}
	if no := decode(c.body, &in); no != nil {
		return *no
	}
	if len(in.Items) == 0 {
		return refuse(http.StatusBadRequest, codeBadItem, "no items to delete")
	}
	op := &operation{list: l}
	seen := make(map[string]bool, len(in.Items))
	for i, e := range in.Items {
		if seen[e.ID] {
			return refuse(http.StatusBadRequest, codeBadItem, "duplicate id at position %d", i)
		}
		if l.byID[e.ID] == nil && !s.opt.IgnoreUnknownID {
			return refuse(http.StatusNotFound, codeNoItem, "could not find list item at position %d: %s", i, e.ID)
		}
		seen[e.ID] = true
		op.remove = append(op.remove, e.ID)
	}
	return s.accept(c, a, op, len(op.remove))
}

type cursorsJSON struct {
	Before *string `json:"before,omitempty"`
	After  *string `json:"after,omitempty"`
}

// listItems gives a page of the items there are now. A cursor names the last item of
// its page, and not a number, so that items that come and go between two pages make
// nobody else appear twice or be left out.
func (s *Server) listItems(c *call) answer {
	_, l, no := s.list(c)
	if no != nil {
		return *no
	}
	size := 25
	if text := c.query.Get("per_page"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return refuse(http.StatusBadRequest, codeBadCursor, "invalid per_page")
		}
		size = min(n, s.opt.Limits.PageSize)
	}
	all := l.order()
	if search := strings.ToLower(c.query.Get("search")); search != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(it *item) bool { return !strings.HasPrefix(show(it.prefix), search) })
	}
	from := 0
	if text := c.query.Get("cursor"); text != "" {
		after, backwards, err := readCursor(l, text)
		if err != nil {
			return refuse(http.StatusBadRequest, codeBadCursor, "invalid cursor")
		}
		at, found := slices.BinarySearchFunc(all, after, func(it *item, p netip.Prefix) int { return comparePrefix(it.prefix, p) })
		switch {
		case backwards:
			from = max(0, at-size)
			size = at - from
		case found:
			from = at + 1
		default:
			from = at
		}
	}
	to := min(from+size, len(all))
	page := make([]itemJSON, 0, to-from)
	for _, it := range all[from:to] {
		page = append(page, s.showItem(it))
	}
	var cur cursorsJSON
	if to < len(all) && to > from {
		cur.After = newCursor(l, "a", all[to-1].prefix)
	} else if s.opt.EmptyAfter {
		cur.After = new(string)
	}
	if from > 0 && to > from {
		cur.Before = newCursor(l, "b", all[from].prefix)
	}
	a := ok(page)
	a.info = map[string]any{"cursors": cur}
	return a
}

func newCursor(l *list, way string, p netip.Prefix) *string {
	text := base64.RawURLEncoding.EncodeToString([]byte(l.id[:8] + way + p.String()))
	return &text
}

func readCursor(l *list, text string) (p netip.Prefix, backwards bool, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < 9 || string(raw[:8]) != l.id[:8] {
		return p, false, cmp.Or(err, errors.New("cursor of another list"))
	}
	p, err = netip.ParsePrefix(string(raw[9:]))
	return p, raw[8] == 'b', err
}
