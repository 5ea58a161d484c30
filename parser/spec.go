package parser

import (
	"fmt"
	"strings"
	"time"
)

// maxSpec is how long a format may be, in bytes.
const maxSpec = 16 << 10

// NoHeader as [Options.Header] makes a format ignore forwarding headers.
const NoHeader = "-"

// Options of a format; the zero value is usable.
type Options struct {
	// Header names the forwarding header to use, in any case. Empty:
	// X-Forwarded-For if the format logs it, else the client that the server
	// itself resolved if the format logs that beside the peer. NoHeader: none.
	Header string

	// Zone is for times without an offset. Nil: a format with such a time is
	// refused.
	Zone *time.Location

	// Now is when the log is read, for times that can mean several instants:
	// in the hour that comes twice in autumn, or without a year. Each is then
	// the one nearest to the time before it in the log, and the first one of a
	// log the last that is not after Now. Zero: the first is the earlier one,
	// and a format without a year is refused.
	Now time.Time
}

// SpecError says why a format was refused.
type SpecError struct {
	Offset int    // where in the spec, in bytes
	Text   string // the piece of the spec that it is about; may be empty
	Msg    string // what is wrong
	Hint   string // a better form; may be empty
}

func (e *SpecError) Error() string {
	s := fmt.Sprintf("log format, byte %d", e.Offset)
	if e.Text != "" {
		s += fmt.Sprintf(" (%s)", e.Text)
	}
	s += ": " + e.Msg
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// New makes a parser for a preset's name, an nginx log_format or an Apache
// LogFormat. The last two may be given bare or as the directive stands in the
// server's configuration; which of them it is is found out from the text. The
// error is a *[SpecError].
//
// Sources: nginx ngx_http_log_module (log_format, $variables, escape=) and
// Apache mod_log_config (LogFormat, %directives).
func New(spec string, o Options) (Format, error) {
	if len(spec) > maxSpec {
		return nil, &SpecError{Msg: fmt.Sprintf("is longer than %d bytes", maxSpec)}
	}
	t, err := parseSpec(spec)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return newPreset(spec, o)
	}
	c, err := compile(t, o)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// newPreset makes a preset, checking it against the options. A preset has
// the forwarding header it has.
func newPreset(spec string, o Options) (Format, error) {
	f, err := preset(strings.TrimSpace(spec), o)
	if err != nil {
		return nil, &SpecError{Text: spec, Msg: "neither a preset nor a format with $variables or %directives",
			Hint: "presets are " + strings.Join(FormatNames(), ", ")}
	}
	switch {
	case o.Header == NoHeader && f.Fields().Has(FieldForward):
		return nil, &SpecError{Text: spec, Msg: "this preset uses its forwarding header",
			Hint: "write the format out to leave the header aside"}
	case o.Header != "" && o.Header != NoHeader && !f.Fields().Has(FieldForward):
		return nil, &SpecError{Text: spec, Msg: fmt.Sprintf("the header %s is to be used, but this preset logs none", o.Header),
			Hint: "write the format out as the server has it"}
	case o.Header != "" && o.Header != NoHeader:
		return nil, &SpecError{Text: spec, Msg: "a preset uses the forwarding header that it has; header is for formats written out",
			Hint: "leave header out, or write the format out as the server has it"}
	}
	return f, nil
}

// template is a format taken apart: lits[0] vars[0] lits[1] … vars[n-1]
// lits[n]. Only the first and last literal may be empty.
type template struct {
	lits []string
	vars []*variable
	size int  // of the spec
	bare bool // values are not escaped
}

// variable is a place in a format where the server writes a value.
type variable struct {
	text   string // as in the spec
	offset int    // in the spec
	role   role
	rank   int // of several variables in one role the highest counts, then the first
	class  class
	fixed  int // length of the value if it always has the same; else 0
	word   bool
	client bool   // a client can write what it likes into it
	header string // the request header it shows: lower case, with "_"
	time   *timeForm
	direct bool // an address: the connection's, whatever the server trusts

	// emptyQuotes: an empty value is written as "" (Apache's %u).
	emptyQuotes bool
	// target: may stand next to another one, as in %U%q: one field for us.
	target bool
	joined bool // it does
	// some: written for some answers only, "-" for the others.
	some bool
	// redirected: of the page that the server has passed the request on to.
	redirected bool
	// args: the query, as nginx writes it behind a path.
	args argsPart
	// decoded: a path of which the server has undone the percent codes.
	decoded bool
}

// fail makes an error about the variable.
func (v *variable) fail(msg, hint string) *SpecError {
	return &SpecError{Offset: v.offset, Text: v.text, Msg: msg, Hint: hint}
}

// parseSpec takes a format apart; nil if it is none.
func parseSpec(spec string) (*template, error) {
	text := strings.TrimSpace(spec)
	base := strings.Index(spec, text)
	word := text
	if i := strings.IndexAny(text, " \t\r\n"); i >= 0 {
		word = text[:i]
	}
	switch {
	case word == "access_log":
		return nil, &SpecError{Offset: base, Text: word, Msg: "names a file and a format, and is no format itself",
			Hint: "copy the log_format that it names, or give \"combined\" if it names none"}
	case strings.EqualFold(word, "CustomLog"), strings.EqualFold(word, "TransferLog"):
		return nil, &SpecError{Offset: base, Text: word, Msg: "names a file and a format, and is no format itself",
			Hint: "copy the LogFormat that it names, or only the text in its quotes if that has % in it"}
	case word == "log_format":
		return parseNginxDirective(spec, base+len(word))
	case strings.EqualFold(word, "LogFormat"):
		return parseApacheDirective(spec, base+len(word))
	case strings.HasPrefix(text, "'") && (strings.HasSuffix(text, "'") || strings.HasSuffix(text, ";")):
		return parseNginxArgs(spec, base)
	case isOneString(text) && hasNginxVariable(text):
		return parseNginxArgs(spec, base)
	case isOneString(text):
		return parseApacheQuoted(spec, base)
	case hasNginxVariable(text):
		return parseNginxBare(spec, base, base+len(text))
	case strings.Contains(text, "%"):
		return parseApache(mapText(spec, base, base+len(text)), len(spec))
	}
	return nil, nil
}

// isOneString reports whether text is a string with the quotes of the server's
// configuration, other quotes in it escaped: "%h \"%r\"".
func isOneString(text string) bool {
	end := len(text) - 1
	if end < 1 || text[0] != '"' || !strings.Contains(text, `\"`) {
		return false
	}
	return unescapedQuote([]byte(text), 1) == end
}

// hasNginxVariable reports whether a dollar sign in text begins a variable.
func hasNginxVariable(text string) bool {
	for i := 1; i < len(text); i++ {
		if text[i-1] == '$' && (text[i] == '{' || isName(text[i])) {
			return true
		}
	}
	return false
}

// mapped is text with the place of each byte in the spec, since quoting has
// been undone.
type mapped struct {
	text []byte
	at   []int
}

// mapText is spec[from:to] without any change.
func mapText(spec string, from, to int) *mapped {
	m := new(mapped)
	for i := from; i < to; i++ {
		m.add(spec[i], i)
	}
	return m
}

func (m *mapped) add(c byte, at int) {
	m.text = append(m.text, c)
	m.at = append(m.at, at)
}

// offset returns the place of text[i] in the spec.
func (m *mapped) offset(i int) int {
	switch {
	case i < len(m.at):
		return m.at[i]
	case len(m.at) > 0:
		return m.at[len(m.at)-1] + 1
	}
	return 0
}

// fail makes an error about text[from:to].
func (m *mapped) fail(from, to int, msg, hint string) *SpecError {
	return &SpecError{Offset: m.offset(from), Text: string(m.text[from:min(to, len(m.text))]), Msg: msg, Hint: hint}
}

// templateBuilder collects literals and variables in order.
type templateBuilder struct {
	template
	lit []byte
}

func (b *templateBuilder) literal(c byte) { b.lit = append(b.lit, c) }

func (b *templateBuilder) variable(v *variable) error {
	if n := len(b.vars); n > 0 && len(b.lit) == 0 {
		before := b.vars[n-1]
		if before.target && v.target {
			if v.args&argsQuery != 0 && before.args&argsMark == 0 {
				return v.fail("a query behind "+before.text+" without the question mark between them cannot be told from the path",
					"write $uri$is_args"+v.text+", or $request_uri")
			}
			before.args = v.args
			before.text += v.text
			before.rank = max(before.rank, v.rank)
			before.role = max(before.role, v.role)
			before.decoded = before.decoded || v.decoded
			before.redirected = before.redirected || v.redirected
			before.joined = true
			return nil
		}
		if !joinsTime(before, v, "") {
			return v.fail("nothing separates it from "+before.text+" before it", "put a blank or quotes between them")
		}
	}
	if n := len(b.vars); n > 0 && joinsTime(b.vars[n-1], v, string(b.lit)) {
		joinTime(b.vars[n-1], v, string(b.lit))
		b.lit = nil
		return nil
	}
	b.lits = append(b.lits, string(b.lit))
	b.vars = append(b.vars, v)
	b.lit = nil
	return nil
}

func (b *templateBuilder) done(m *mapped, size int) (*template, error) {
	b.lits = append(b.lits, string(b.lit))
	b.size = size
	for i, c := range m.text {
		if c == '\n' {
			return nil, m.fail(i, i, "a line feed: a record must be one line",
				"give the format in one line, or the directive with its quotes")
		}
	}
	return &b.template, nil
}
