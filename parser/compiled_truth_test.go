package parser

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A model of a server: it draws a format, and a request that a hostile client
// sent, and writes the line.

// truth is what happened.
type truth struct {
	peer    netip.Addr
	at      time.Time
	status  int
	forward string // as logged
	method  string
}

// modelVar is a variable of the model.
type modelVar struct {
	text string
	free bool // the client's text: value is not used
	// value writes what is not the client's.
	value func(*truth) string
}

func fixedValue(s string) func(*truth) string { return func(*truth) string { return s } }

func nginxModel() []modelVar {
	vars := []modelVar{
		{text: "$remote_addr", value: func(t *truth) string { return t.peer.String() }},
		{text: "$time_local", value: func(t *truth) string { return t.at.Format(goCLF) }},
		{text: "${time_iso8601}", value: func(t *truth) string { return t.at.Format("2006-01-02T15:04:05-07:00") }},
		{text: "$msec", value: func(t *truth) string { return fmt.Sprintf("%d.000", t.at.Unix()) }},
		{text: "$status", value: func(t *truth) string { return fmt.Sprintf("%03d", t.status) }},
		{text: "$request_method", value: func(t *truth) string { return t.method }},
		{text: "$body_bytes_sent", value: fixedValue("512")},
		{text: "$request_time", value: fixedValue("0.005")},
		{text: "$server_protocol", value: fixedValue("HTTP/1.1")},
		{text: "$server_name", value: fixedValue("www.example.com")},
		{text: "$pipe", value: fixedValue(".")},
	}
	for _, name := range []string{"request", "remote_user", "request_uri", "uri", "args", "http_referer", "http_user_agent", "http_x_forwarded_for", "http_a", "mine", "host"} {
		vars = append(vars, modelVar{text: "$" + name, free: true})
	}
	return vars
}

func apacheModel() []modelVar {
	clf := func(t *truth) string { return "[" + t.at.Format(goCLF) + "]" }
	vars := []modelVar{
		{text: "%h", value: func(t *truth) string { return t.peer.String() }},
		{text: "%a", value: func(t *truth) string { return t.peer.String() }},
		{text: "%t", value: clf},
		{text: "%{usec}t", value: func(t *truth) string { return fmt.Sprint(t.at.UnixMicro()) }},
		{text: "%{%Y-%m-%dT%H:%M:%S%z}t", value: func(t *truth) string { return t.at.Format("2006-01-02T15:04:05-0700") }},
		{text: "%{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t", value: func(t *truth) string { return t.at.Format("02/Jan/2006:15:04:05.000 -0700") }},
		{text: "%>s", value: func(t *truth) string { return fmt.Sprintf("%03d", t.status) }},
		{text: "%m", value: func(t *truth) string { return t.method }},
		{text: "%b", value: fixedValue("-")},
		{text: "%D", value: fixedValue("1234")},
		{text: "%H", value: fixedValue("HTTP/1.1")},
		{text: "%v", value: fixedValue("www.example.com")},
		{text: "%l", value: fixedValue("-")},
	}
	for _, name := range []string{"%r", "%u", "%U%q", "%{Referer}i", "%{User-Agent}i", "%{X-Forwarded-For}i", "%{A}i", "%V", "%{B}o"} {
		vars = append(vars, modelVar{text: name, free: true})
	}
	return vars
}

// escapeJSONText writes a value as nginx does with escape=json.
func escapeJSONText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f':
			b.WriteByte('\\')
			b.WriteByte("btn fr"[c-'\b'])
		case c < 32:
			fmt.Fprintf(&b, `\u%04X`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// model is a drawn format.
type model struct {
	spec   string
	vars   []modelVar
	lits   []string
	apache bool
	escape func(string) string
	empty  string // what is logged for nothing
}

func drawModel(t *rapid.T) model {
	m := model{escape: escapeNginx, empty: "-"}
	known, head := nginxModel(), ""
	switch rapid.IntRange(0, 4).Draw(t, "server") {
	case 0, 1:
		m.apache, m.escape = true, escapeApache
		known = apacheModel()
	case 2:
		head, m.escape, m.empty = "escape=json ", escapeJSONText, ""
	case 3:
		if rapid.IntRange(0, 3).Draw(t, "none") == 0 {
			head, m.empty = "escape=none ", ""
			m.escape = func(s string) string { return s }
		}
	}
	// The three that matter come somewhere, others between them.
	picks := rapid.SliceOfN(rapid.SampledFrom(known), 0, 5).Draw(t, "others")
	picks = append(picks, known[0], rapid.SampledFrom(known[1:6]).Draw(t, "time"))
	picks = rapid.Permutation(picks).Draw(t, "order")
	around := rapid.SampledFrom([][2]string{{"", ""}, {"", ""}, {`"`, `"`}, {`"`, `"`}, {`"`, `"`}, {"[", "]"}, {"<", ">"}, {"{", "}"}})
	between := rapid.SampledFrom([]string{" ", " ", " ", " ", " - ", "|", "\t", ",", ":", ";", "] [", `","b":"`, `\ `, "-", "/", "x", ""})
	lit := ""
	for i, v := range picks {
		if i > 0 {
			lit += between.Draw(t, "between")
		}
		q := around.Draw(t, "around")
		if v.free && rapid.IntRange(0, 2).Draw(t, "quoted") > 0 {
			q = [2]string{`"`, `"`}
		}
		m.lits = append(m.lits, lit+q[0])
		m.vars = append(m.vars, v)
		lit = q[1]
	}
	m.lits = append(m.lits, lit+rapid.SampledFrom([]string{"", "", "", " .", "}"}).Draw(t, "end"))
	m.spec = head
	for i, v := range m.vars {
		text := v.text
		if name, ok := strings.CutPrefix(text, "$"); ok && m.lits[i+1] != "" && isName(m.lits[i+1][0]) && name[0] != '{' {
			text = "${" + name + "}"
		}
		m.spec += m.specLit(m.lits[i]) + text
	}
	m.spec += m.specLit(m.lits[len(m.vars)])
	return m
}

// specLit writes a literal as the format needs it.
func (m *model) specLit(lit string) string {
	if m.apache {
		return strings.NewReplacer(`\`, `\\`, "\t", `\t`).Replace(lit)
	}
	return lit
}

// value draws what the client sent for a variable and returns it as logged.
func (m *model) value(t *rapid.T, tr *truth, v modelVar) string {
	s := hostileText().Draw(t, v.text)
	if v.text == "$request" || v.text == "%r" {
		s = tr.method + " /" + s + " HTTP/1.1"
	}
	if v.text == "$host" { // what nginx lets through
		s = strings.Map(func(r rune) rune {
			if r <= ' ' || r == 0x7f || r == '/' {
				return -1
			}
			return r
		}, s)
		if s == "" {
			s = "h"
		}
	}
	if s == "" {
		if v.text == "%u" {
			return `""`
		}
		return m.empty
	}
	return m.escape(s)
}

// render writes the line of a request.
func (m *model) render(t *rapid.T, tr *truth) string {
	line, forward := m.lits[0], false
	for i, v := range m.vars {
		s := ""
		if v.free {
			s = m.value(t, tr, v)
			if strings.Contains(strings.ToLower(v.text), "x_forwarded") || strings.Contains(v.text, "X-Forwarded") {
				if !forward {
					tr.forward, forward = string(dashNil([]byte(s))), true
				}
			}
		} else {
			s = v.value(tr)
		}
		line += s + m.lits[i+1]
	}
	return line
}

// The property that matters: whatever clients write, a format that was
// accepted gives the true peer, time, status, method and forwarding header.
// Of a cut line it gives the true peer and time, or nothing.
func truthHolds(t *rapid.T, accepted, refused *int) {
	m := drawModel(t)
	f, err := New(m.spec, Options{})
	if err != nil {
		*refused++
		return
	}
	*accepted++
	tr := &truth{
		peer:   netip.MustParseAddr(rapid.SampledFrom([]string{"192.0.2.1", "2001:db8::1"}).Draw(t, "peer")),
		at:     time.Unix(1772701201, 0).In(time.FixedZone("", 3600)),
		status: rapid.SampledFrom([]int{200, 404, 499}).Draw(t, "status"),
		method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"),
	}
	line := m.render(t, tr)
	var ev Event
	if err := f.Parse([]byte(line), false, &ev); err != nil {
		t.Fatalf("format %s\nline %q\n%v", m.spec, line, err)
	}
	if ev.Peer != tr.peer || ev.Time != tr.at.UnixNano() {
		t.Fatalf("format %s\nline %q\ngave %s", m.spec, line, show(&ev))
	}
	if f.Fields().Has(FieldStatus) && ev.Status != tr.status ||
		f.Fields().Has(FieldMethod) && string(ev.Method) != tr.method ||
		string(ev.Forward) != tr.forward {
		t.Fatalf("format %s\nline %q\ngave %s, want status %d, method %s, forward %q", m.spec, line, show(&ev), tr.status, tr.method, tr.forward)
	}
	n := rapid.IntRange(0, len(line)).Draw(t, "cut")
	if f.Parse([]byte(line[:n]), true, &ev) == nil && (ev.Peer != tr.peer || ev.Time != tr.at.UnixNano() || ev.Status != 0 && ev.Status != tr.status) {
		t.Fatalf("format %s\nline %q cut at %d\ngave %s", m.spec, line, n, show(&ev))
	}
}

func TestTruthHolds(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) { truthHolds(t, &accepted, &refused) })
	t.Logf("%d formats accepted, %d refused", accepted, refused)
	// Of 20 draws, as with -short, there may be few of one kind.
	if accepted == 0 || !testing.Short() && (accepted < 10 || refused < 10) {
		t.Errorf("%d formats accepted, %d refused: the test shows nothing", accepted, refused)
	}
}

func FuzzTruthHolds(f *testing.F) {
	accepted, refused := 0, 0
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { truthHolds(t, &accepted, &refused) }))
}
