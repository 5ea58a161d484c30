package config

import (
	"errors"
	"strings"
	"time"

	"github.com/tailban/tailban/parser"
)

// formatJSON is the format of logs whose lines are JSON, with [logs.X.fields]
// to say where everything is.
const formatJSON = "json"

// Parser makes a parser for the log's lines, which are read from now on: a new
// one for each goroutine.
func (l *Log) Parser() (parser.Format, error) {
	if l.Fields != nil {
		return parser.NewJSON(*l.Fields)
	}
	return parser.New(l.Format, parser.Options{Header: l.Header, Zone: l.Zone, Now: time.Now()})
}

// FormatName names the format in few words.
func (l *Log) FormatName() string {
	if strings.ContainsAny(l.Format, "$% \n") {
		return "own format"
	}
	return l.Format
}

// readFormat reads what says how a log's lines are written.
func readFormat(t named, l *Log) {
	if n, ok := t.get("timezone"); ok {
		l.Zone = n.zone()
	}
	if n, ok := t.get("header"); ok {
		l.Header, _ = n.text()
	}
	if n, ok := t.get("peer"); ok {
		peer, _ := n.oneOf("connection", "rewritten")
		l.Rewritten = peer == "rewritten"
	}
	format, given := t.get("format")
	if given {
		var ok bool
		if l.Format, ok = format.lines(); !ok {
			return
		}
	}
	fields, hasFields := t.sub("fields")
	switch {
	case hasFields && l.Format != formatJSON:
		t.doc.bad(t.path.key("fields"), "are for format = %q only", formatJSON)
		return
	case !hasFields && l.Format == formatJSON:
		t.missing("fields", "required with format = %q: a table like { peer = \"client_ip\", time = \"time\", … }", formatJSON)
		return
	case hasFields:
		l.Fields = readJSONFields(fields)
	}
	if l.Fields != nil {
		for _, key := range []string{"header", "timezone"} {
			if _, ok := t.get(key); ok {
				t.doc.bad(t.path.key(key), "is not for format = %q: fields.forward names the header, and times need their offset", formatJSON)
			}
		}
	}
	switch f, err := l.Parser(); {
	case err == nil:
		l.logged, l.traits = f.Fields(), parser.TraitsOf(f)
	case l.Fields != nil:
		t.doc.bad(t.path.key("fields"), "%s", strings.TrimPrefix(err.Error(), "JSON fields: "))
	case given:
		format.badFormat(err)
	default:
		t.doc.bad(t.path.key("format"), "the default, %q, can't be used: %v", l.Format, err)
	}
}

// readJSONFields reads [logs.NAME.fields].
func readJSONFields(s *section) *parser.JSONFields {
	var f parser.JSONFields
	for _, x := range []struct {
		key string
		to  *string
	}{
		{"peer", &f.Peer}, {"forward", &f.Forward}, {"time", &f.Time}, {"time_form", &f.TimeForm},
		{"request", &f.Request}, {"method", &f.Method}, {"target", &f.Target}, {"proto", &f.Proto},
		{"status", &f.Status}, {"bytes", &f.Bytes}, {"host", &f.Host},
		{"referer", &f.Referer}, {"agent", &f.Agent}, {"user", &f.User},
	} {
		if n, ok := s.get(x.key); ok {
			*x.to, _ = n.text()
		}
	}
	s.finish()
	return &f
}

// badFormat reports why a format is refused.
func (n node) badFormat(err error) {
	var spec *parser.SpecError
	if !errors.As(err, &spec) {
		n.bad("%v", err)
		return
	}
	text, _ := n.v.(string)
	if _, unknown := parser.NewFormat(text); unknown != nil && spec.Text == text && !strings.ContainsAny(text, "$%") {
		n.bad("unknown format%s", suggest(text, append(parser.FormatNames(), formatJSON)))
		return
	}
	msg := spec.Msg
	if spec.Text != "" && spec.Text != text {
		msg = spec.Text + ": " + msg
	}
	if spec.Hint != "" {
		msg += "; " + spec.Hint
	}
	n.bad("%s", msg)
}

// lines is text that may have several lines.
func (n node) lines() (string, bool) {
	s, ok := n.v.(string)
	if !ok || strings.TrimSpace(s) == "" {
		return n.text() // which reports it
	}
	return s, true
}

// zone reads the name of a time zone.
func (n node) zone() *time.Location {
	s, ok := n.text()
	if !ok {
		return nil
	}
	z, err := time.LoadLocation(s)
	if err != nil {
		n.bad(`must be the name of a time zone, like "Europe/Berlin" or "UTC"`)
		return nil
	}
	return z
}
