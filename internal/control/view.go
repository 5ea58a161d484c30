package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tailban/tailban/parser"
)

func (e *endpoint) getStatus(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r.URL.RawQuery); err != nil {
		return err
	}
	s, err := call(e, r, e.limits.call, e.Daemon.Status)
	return e.send(w, s, err)
}

func (e *endpoint) getBans(w http.ResponseWriter, r *http.Request) error {
	q, err := parseBansQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	b, err := call(e, r, e.limits.call, func(ctx context.Context) (*Bans, error) { return e.Daemon.Bans(ctx, q) })
	if err != nil {
		return err
	}
	out := e.answer(w, http.StatusOK)
	writeBans(out, b)
	return nil
}

// MetricsType is the content type of the text format of Prometheus.
const MetricsType = "text/plain; version=0.0.4; charset=utf-8"

func (e *endpoint) getMetrics(w http.ResponseWriter, r *http.Request) error {
	if _, err := parameters(r.URL.RawQuery); err != nil {
		return err
	}
	if e.Metrics == nil {
		return &Error{Code: CodeNotFound, Message: "there are no metrics"}
	}
	text, err := call(e, r, e.limits.call, func(ctx context.Context) (*[]byte, error) {
		text, err := e.Metrics(ctx)
		return &text, err
	})
	if err != nil {
		return err
	}
	out := e.answerAs(w, http.StatusOK, MetricsType)
	out.Write(*text)
	out.Flush()
	return nil
}

// writeBans writes Bans ban by ban, as the encoder would keep all of the text
// at a time. It stops when the other side doesn't take it.
func writeBans(out *answer, b *Bans) {
	now, _ := json.Marshal(b.Now)
	fmt.Fprintf(out, `{"now":%s,"total":%d,"bans":[`, now, b.Total)
	for i := range b.Bans {
		if i > 0 {
			out.WriteByte(',')
		}
		if out.json(&b.Bans[i]) != nil {
			return
		}
	}
	out.WriteString("]}\n")
	out.Flush()
}

func (e *endpoint) getExplanation(w http.ResponseWriter, r *http.Request) error {
	v, err := parameters(r.URL.RawQuery, "address")
	if err != nil {
		return err
	}
	text := v.Get("address")
	a, ok := parser.ParseAddr([]byte(text))
	if !ok {
		return badRequest("the parameter address has to be an IP address, not "+strconv.Quote(cut(text)), "like /v1/explain?address=192.0.2.1")
	}
	x, err := call(e, r, e.limits.call, func(ctx context.Context) (*Explanation, error) { return e.Daemon.Explain(ctx, a) })
	return e.send(w, x, err)
}

func (e *endpoint) explainLine(w http.ResponseWriter, r *http.Request) error {
	var q LineQuery
	if err := readRequest(w, r, &q); err != nil {
		return err
	}
	x, err := call(e, r, e.limits.call, func(ctx context.Context) (*LineExplanation, error) { return e.Daemon.ExplainLine(ctx, q) })
	return e.send(w, x, err)
}

// send answers with a value, unless there is an error.
func (e *endpoint) send(w http.ResponseWriter, v any, err error) error {
	if err != nil {
		return err
	}
	out := e.answer(w, http.StatusOK)
	out.json(v)
	out.Flush()
	return nil
}

// parameters reads the query of a URL. Only those of the given names may be
// there, each once.
func parameters(query string, names ...string) (url.Values, error) {
	v, err := url.ParseQuery(query)
	if err != nil {
		return nil, badRequest("the parameters can't be read: "+cut(err.Error()), "")
	}
	for name, values := range v {
		known := "there are none here"
		if len(names) > 0 {
			known = "known: " + strings.Join(names, ", ")
		}
		if !slices.Contains(names, name) {
			return nil, badRequest("unknown parameter "+strconv.Quote(cut(name)), known)
		}
		if len(values) > 1 {
			return nil, badRequest("the parameter "+name+" is there twice", "")
		}
	}
	return v, nil
}

func parseBansQuery(query string) (q BansQuery, err error) {
	v, err := parameters(query, "overlap", "jail", "action", "sort", "limit")
	if err != nil {
		return q, err
	}
	if s := v.Get("overlap"); s != "" {
		if q.Overlap, err = parseTarget(s); err != nil {
			return q, badRequest("the parameter overlap "+err.Error(), "")
		}
	}
	q.Jail, q.Action, q.Sort = v.Get("jail"), v.Get("action"), v.Get("sort")
	if q.Sort != "" && !slices.Contains(Sorts(), q.Sort) {
		return q, badRequest("unknown order "+strconv.Quote(cut(q.Sort)), "sort is one of "+strings.Join(Sorts(), ", "))
	}
	if s := v.Get("limit"); s != "" {
		if q.Limit, err = strconv.Atoi(s); err != nil || q.Limit < 0 {
			return q, badRequest("the parameter limit has to be a whole number, 0 for all, not "+strconv.Quote(cut(s)), "")
		}
	}
	return q, nil
}
