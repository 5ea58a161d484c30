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
		f := *l.Fields
		f.Zone, f.Now = l.Zone, time.Now()
		return parser.NewJSON(f)
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
		l.told = true
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
		if _, ok := t.get("header"); ok {
			t.doc.bad(t.path.key("header"), "is not for format = %q: fields.forward names the header", formatJSON)
		}
		if _, ok := t.get("timezone"); ok && l.Fields.TimeForm != "" && l.Fields.TimeForm != "local" {
			t.doc.bad(t.path.key("timezone"), `is for times without an offset: fields.time_form = "local", or none`)
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
	n.at.Line += n.doc.linesIn(n.at.Line, text, spec.Offset)
	n.bad("%s", msg)
}

// linesIn returns how many lines behind the first one of a text its byte offset
// stands, if the text is written over several lines between three single
// quotes, which say nothing of their own: 0 if not.
func (d *document) linesIn(line int, text string, offset int) int {
	const open = "'''"
	lines := strings.SplitN(d.text, "\n", line+1)
	if line < 1 || len(lines) <= line || offset > len(text) {
		return 0
	}
	_, behind, ok := strings.Cut(lines[line-1], open)
	if !ok {
		return 0
	}
	n := strings.Count(text[:offset], "\n")
	if strings.TrimRight(behind, "\r") == "" {
		n++ // TOML leaves out a line feed right behind the quotes
	}
	return n
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
	z, err := LoadZone(s)
	if err != nil {
		n.bad("%v", err)
	}
	return z
}

// LoadZone returns the time zone of an IANA name.
func LoadZone(name string) (*time.Location, error) {
	if name == "Local" { // which Go takes for this host's, whatever that is
		return nil, errors.New(`must be the IANA name of a time zone, like "Europe/Berlin": this host's is what /etc/localtime links to`)
	}
	z, err := time.LoadLocation(name)
	if err != nil || name == "" {
		return nil, errors.New(`must be the name of a time zone, like "Europe/Berlin" or "UTC"`)
	}
	return z, nil
}
