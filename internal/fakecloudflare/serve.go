package fakecloudflare

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A call is a request on its way through the double.
type call struct {
	now   time.Time
	req   *http.Request
	body  []byte
	query url.Values
	vars  map[string]string
	token *Token // nil where none is needed
	rec   *Request
}

// An answer is what is written in Cloudflare's envelope.
type answer struct {
	status   int
	result   any
	info     any
	errs     []apiError
	messages []apiError
	header   map[string]string
	noBody   bool
}

type apiError struct {
	Code    int        `json:"code"`
	Message string     `json:"message"`
	Chain   []apiError `json:"error_chain,omitempty"`
}

func ok(result any) answer { return answer{status: http.StatusOK, result: result} }

func refuse(status, code int, format string, args ...any) answer {
	return answer{status: status, errs: []apiError{{Code: code, Message: fmt.Sprintf(format, args...)}}}
}

// A handler runs with the lock held.
type handler func(*Server, *call) answer

type route struct {
	method, path string
	perm         Permission // "": any token; open: none
	handle       handler
}

// What stands in a route for a permission: no token is needed, or any that is known,
// also one that has ended.
const (
	open     Permission = "-"
	anyState Permission = "*"
)

// routes has a path as the API writes it, below /client/v4/.
func routes() []route {
	lists, sets := "accounts/{account}/rules/lists", "zones/{zone}/rulesets"
	all := []route{
		{"GET", lists, ListsRead, (*Server).listLists},
		{"POST", lists, ListsEdit, (*Server).createList},
		{"GET", lists + "/bulk_operations/{op}", ListsRead, (*Server).getOperation},
		{"GET", lists + "/{list}", ListsRead, (*Server).getList},
		{"PUT", lists + "/{list}", ListsEdit, (*Server).updateList},
		{"DELETE", lists + "/{list}", ListsEdit, (*Server).deleteList},
		{"GET", lists + "/{list}/items", ListsRead, (*Server).listItems},
		{"POST", lists + "/{list}/items", ListsEdit, (*Server).addItems},
		{"PUT", lists + "/{list}/items", ListsEdit, (*Server).replaceItems},
		{"DELETE", lists + "/{list}/items", ListsEdit, (*Server).removeItems},
		{"GET", lists + "/{list}/items/{item}", ListsRead, (*Server).getItem},

		{"GET", sets, ZoneWAFRead, (*Server).listRulesets},
		{"POST", sets, ZoneWAFEdit, (*Server).createRuleset},
		{"GET", sets + "/phases/{phase}/entrypoint", ZoneWAFRead, (*Server).entrypoint},
		{"PUT", sets + "/phases/{phase}/entrypoint", ZoneWAFEdit, (*Server).updateEntrypoint},
		{"GET", sets + "/{ruleset}", ZoneWAFRead, (*Server).getRuleset},
		{"PUT", sets + "/{ruleset}", ZoneWAFEdit, (*Server).updateRuleset},
		{"POST", sets + "/{ruleset}/rules", ZoneWAFEdit, (*Server).createRule},
		{"PATCH", sets + "/{ruleset}/rules/{rule}", ZoneWAFEdit, (*Server).editRule},
		{"DELETE", sets + "/{ruleset}/rules/{rule}", ZoneWAFEdit, (*Server).deleteRule},

		{"GET", "user/tokens/verify", anyState, (*Server).verifyUser},
		{"GET", "accounts/{account}/tokens/verify", anyState, (*Server).verifyAccount},
		{"GET", "accounts", "", (*Server).listAccounts},
		{"GET", "accounts/{account}", AccountSettings, (*Server).getAccount},
		{"GET", "zones", "", (*Server).listZones},
		{"GET", "zones/{zone}", ZoneRead, (*Server).getZone},
		{"GET", "ips", open, (*Server).ips},
	}
	for _, of := range []string{"accounts/{account}", "zones/{zone}"} {
		access := of + "/firewall/access_rules/rules"
		all = append(all,
			route{"GET", access, AccessRead, (*Server).listAccess},
			route{"POST", access, AccessEdit, (*Server).createAccess},
			route{"GET", access + "/{rule}", AccessRead, (*Server).getAccess},
			route{"PATCH", access + "/{rule}", AccessEdit, (*Server).editAccess},
			route{"DELETE", access + "/{rule}", AccessEdit, (*Server).deleteAccess},
		)
	}
	return all
}

const prefix = "/client/v4/"

// find gives the route of a request and what its path names; known says whether the
// path exists with another method.
func (s *Server) find(method, path string) (r route, vars map[string]string, known bool) {
	rest, under := strings.CutPrefix(path, prefix)
	if !under {
		return route{}, nil, false
	}
	have := strings.Split(rest, "/")
next:
	for _, r := range s.routes {
		want := strings.Split(r.path, "/")
		if len(want) != len(have) {
			continue
		}
		vars := make(map[string]string)
		for i, w := range want {
			if name, isVar := strings.CutPrefix(w, "{"); isVar && have[i] != "" {
				vars[strings.TrimSuffix(name, "}")] = have[i]
			} else if w != have[i] {
				continue next
			}
		}
		if r.method == method {
			return r, vars, true
		}
		known = true
	}
	return route{}, nil, known
}

func (s *Server) serve(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	limit := int64(s.opt.Limits.Body)
	s.mu.Unlock()
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		panic(http.ErrAbortHandler) // the client went away in the middle of its request
	}
	now := s.lock()
	rec := &Request{At: now, Method: req.Method, Path: req.URL.Path, Query: req.URL.RawQuery, BodySize: len(body)}
	if keep := s.opt.LogBody; keep > 0 {
		rec.Body = append([]byte(nil), body[:min(len(body), keep)]...)
	}
	c := &call{now: now, req: req, body: body, query: req.URL.Query(), rec: rec}
	a := s.answer(c, int64(len(body)) > limit)
	a.after(rec.Fault)
	rec.Status = a.status
	if len(a.errs) > 0 {
		rec.Code = a.errs[0].Code
	}
	slow, date, ray := s.opt.Slow, now.Add(s.opt.Skew), s.newID()[:16]
	s.log.add(*rec, s.opt.LogSize)
	s.mu.Unlock()
	write(w, req, a, rec.Fault, slow, date, ray)
}

// answer runs a call; the order of its steps is the real API's as far as it is known:
// who is it, are there too many, what is it, may they, do it.
func (s *Server) answer(c *call, tooBig bool) answer {
	r, vars, known := s.find(c.req.Method, c.req.URL.Path)
	token, no := s.authenticate(c.req, c.now)
	owner := "nobody"
	if token != nil {
		owner, c.rec.Token = token.Owner, token.ID
	}
	wait, left := s.admit(owner, c.now)
	if wait > 0 {
		c.rec.Limited = true
		a := refuse(http.StatusTooManyRequests, 971, "Please wait and consider throttling your request speed")
		a.header = map[string]string{"Retry-After": strconv.Itoa(int((wait + time.Second - 1) / time.Second))}
		return a
	}
	if f, hit := s.faults.before(c.rec); hit {
		return f
	}
	var a answer
	switch {
	case r.handle == nil && known:
		a = refuse(http.StatusMethodNotAllowed, 10405, "Method not allowed for this authentication scheme")
	case r.handle == nil:
		a = refuse(http.StatusNotFound, 7003, "Could not route to %s, perhaps your object identifier is invalid?",
			strings.TrimPrefix(c.req.URL.Path, "/client/v4"))
	case tooBig:
		a = refuse(http.StatusRequestEntityTooLarge, 10013, "request body too large")
	case r.perm == open:
		a = r.handle(s, c)
	case no != nil && (r.perm != anyState || token == nil):
		a = *no
	case !s.may(token, r, vars):
		a = s.forbidden(vars)
	default:
		c.token, c.vars = token, vars
		a = r.handle(s, c)
	}
	if a.header == nil {
		a.header = make(map[string]string)
	}
	l := s.opt.Limits
	a.header["Ratelimit"] = fmt.Sprintf(`"default";r=%d;t=%d`, left, int(l.RequestsWindow.Seconds()))
	a.header["Ratelimit-Policy"] = fmt.Sprintf(`"default";q=%d;w=%d`, l.Requests, int(l.RequestsWindow.Seconds()))
	return a
}

func write(w http.ResponseWriter, req *http.Request, a answer, f Fault, slow time.Duration, date time.Time, ray string) {
	switch f {
	case SlowAnswer:
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case <-t.C:
		case <-req.Context().Done():
			panic(http.ErrAbortHandler)
		}
	case ResetBefore, ResetAfter:
		panic(http.ErrAbortHandler)
	}
	h := w.Header()
	h.Set("Date", date.UTC().Format(http.TimeFormat))
	h.Set("Cf-Ray", ray+"-DUB")
	if page, isHTML := f.page(); isHTML {
		h.Set("Content-Type", "text/html; charset=UTF-8")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, page)
		return
	}
	for k, v := range a.header {
		h.Set(k, v)
	}
	if a.noBody {
		w.WriteHeader(a.status)
		return
	}
	h.Set("Content-Type", "application/json; charset=UTF-8")
	data, err := json.Marshal(struct {
		Result   any        `json:"result"`
		Success  bool       `json:"success"`
		Errors   []apiError `json:"errors"`
		Messages []apiError `json:"messages"`
		Info     any        `json:"result_info,omitempty"`
	}{a.result, len(a.errs) == 0, orEmpty(a.errs), orEmpty(a.messages), a.info})
	if err != nil {
		panic("fakecloudflare: an answer has no JSON: " + err.Error()) // a fault of this package
	}
	if f == CutAnswer {
		data = data[:len(data)*2/3]
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(data)
}

func orEmpty(e []apiError) []apiError {
	if e == nil {
		return []apiError{}
	}
	return e
}
