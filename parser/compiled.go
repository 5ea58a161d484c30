package parser

import (
	"bytes"
	"encoding/binary"
)

// compiled parses the lines of a format given as text, by walking a flat list
// of steps (see plan.go). It allocates nothing, but for a buffer that never
// outgrows three times the longest line.
type compiled struct {
	steps  []step
	fields Fields
	traits Traits
	need   Fields // what a cut line must hold to count
	time   *timeForm
	query  bool        // behind a decoded path
	dash   bool        // behind a target without a query
	bare   *bareTarget // of a format whose values are not escaped; else nil
	rfc    *forwarded  // the forwarding header is Forwarded; else nil
	buf    []byte      // a path that was encoded again; see encode

	encodes bool // there is such a path
}

var _ Format = (*compiled)(nil)

// compile makes a parser for a template.
func compile(t *template, o Options) (*compiled, error) {
	if err := t.assignRoles(o); err != nil {
		return nil, err
	}
	p := planner{template: t}
	if err := p.plan(); err != nil {
		return nil, err
	}
	c := &compiled{steps: p.steps}
	for i := range c.steps {
		c.steps[i].setWord()
	}
	if t.bare {
		c.bare = new(bareTarget)
	}
	if isForwarded(o.Header) {
		c.rfc = &forwarded{escaped: !t.bare}
	}
	for _, v := range t.vars {
		c.fields |= v.role.field()
		if v.role == roleTime {
			c.time = v.time
		}
		c.dash = c.dash || v.role.field() == FieldPath && v.args&argsDash != 0
		c.encodes = c.encodes || v.role == rolePath
		c.query = c.query || v.role == rolePath && v.joined
	}
	c.setTraits(t)
	c.need = FieldPeer | FieldTime | c.fields&FieldPath
	return c, nil
}

func (c *compiled) Fields() Fields { return c.fields }

func (c *compiled) Parse(line []byte, cut bool, ev *Event) error {
	*ev = Event{Bytes: -1, Partial: cut}
	line = trimLine(line)
	if len(line) == 0 {
		return ErrNotMine
	}
	w := walk{c: c, line: line, ev: ev}
	n, bad := w.run()
	if c.bare != nil {
		ev.Target = c.bare.escape(ev.Target)
	}
	if c.rfc != nil {
		ev.Forward = c.rfc.list(ev.Forward)
	}
	switch {
	case bad == nil, cut && (w.got | c.read(n)).Has(c.need):
		return nil
	case line[0] == '#': // asked last: a client's text may come first in the line
		return ErrNotMine
	}
	return bad
}

// read returns what the first n steps tell: those that read a value. What
// opNoName reads, the steps that it skips would.
func (c *compiled) read(n int) (f Fields) {
	for i := range n {
		switch c.steps[i].op {
		case opNoName, opGroup, opGroupEOL:
		default:
			f |= c.steps[i].role.field()
		}
	}
	return f
}

// walk is the state of parsing one line.
type walk struct {
	c    *compiled
	line []byte
	ev   *Event
	pos  int    // where the unread line begins
	end  int    // of the group: where its unread part ends
	next int    // where the line goes on behind the group
	got  Fields // what was read of the step that failed, since the line was cut in it
}

// run takes all steps. Its error is nil or the part that is wrong, in the step
// of that number.
func (w *walk) run() (failed int, bad *MalformedError) {
	steps := w.c.steps
	for i := 0; i < len(steps); i++ {
		s := &steps[i]
		ok := true
		switch s.op {
		case opUntil:
			ok = w.quickUntil(s)
		case opNumber:
			ok = w.number(s)
		case opNoName:
			if w.noName(s) {
				i += s.n
			}
		default:
			ok = w.step(s)
		}
		if !ok {
			return i, s.role.malformed()
		}
	}
	// What a server writes behind the last field is not ours.
	if w.pos < len(w.line) && w.line[w.pos] != ' ' {
		return len(steps), steps[len(steps)-1].role.malformed()
	}
	return len(steps), nil
}

func (w *walk) step(s *step) bool {
	switch s.op {
	case opLiteral:
		return w.literal(s.lit)
	case opFixed:
		from := w.pos
		w.pos += s.n
		if w.pos > len(w.line) || !w.store(s.role, w.line[from:w.pos]) {
			return false
		}
		if !w.literal(s.lit) {
			w.got |= s.role.field()
			return false
		}
		return true
	case opUntilQuotes:
		return w.until(s)
	case opWord:
		return w.word(s)
	case opGroup:
		end, whole := w.find(s)
		if !whole {
			w.storeCut(s.first, w.line[w.pos:end])
			return false
		}
		w.end, w.next = end, end+len(s.lit)
		return true
	case opGroupEOL:
		w.end, w.next = len(w.line)-len(s.lit), len(w.line)
		if w.ev.Partial || w.end < w.pos || string(w.line[w.end:]) != s.lit {
			w.storeCut(s.first, w.line[w.pos:])
			return false
		}
		return true
	case opBackFixed:
		from := w.end - s.n
		if from < w.pos || !w.store(s.role, w.line[from:w.end]) {
			return false
		}
		return w.literalBack(s.lit, from)
	case opBackWord:
		return w.backWord(s)
	case opFirstFit:
		return w.firstFit(s)
	}
	value := w.line[w.pos:w.end]
	w.pos = w.next
	if s.loose {
		return w.storeLoose(s.role, value)
	}
	return w.store(s.role, value)
}

// literal reads lit at pos.
func (w *walk) literal(lit string) bool {
	if !hasPrefix(w.line[w.pos:], lit) {
		return false
	}
	w.pos += len(lit)
	return true
}

// literalBack reads lit before the value that begins at from.
func (w *walk) literalBack(lit string, from int) bool {
	w.end = from - len(lit)
	return w.end >= w.pos && string(w.line[w.end:from]) == lit
}

// number is until for values that are nearly always digits.
func (w *walk) number(s *step) bool {
	rest := w.line[w.pos:]
	value, n := 0, 0
	for n < len(rest) && n < 18 && '0' <= rest[n] && rest[n] <= '9' {
		value = value*10 + int(rest[n]-'0')
		n++
	}
	switch {
	case n == 0 || !s.litAt(rest, n):
		return w.until(s)
	case s.role == roleBytes:
		w.ev.Bytes = int64(value)
	case n == 3:
		w.ev.Status = value
	default:
		return false
	}
	w.pos += n + len(s.lit)
	return true
}

// noName reads the usual case of a group; false leaves it to the steps that
// follow.
func (w *walk) noName(s *step) bool {
	rest := w.line[w.pos:]
	from := len(s.lit)
	end := from + s.at
	if end > len(rest) || !hasPrefix(rest, s.lit) || !hasPrefix(rest[end:], s.behind) {
		return false
	}
	ns, ok := w.c.time.parse(rest[from:end])
	if !ok {
		return false
	}
	w.ev.Time = ns
	w.pos += end + len(s.behind)
	return true
}

// quickUntil is until for a value without a backslash before its end.
func (w *walk) quickUntil(s *step) bool {
	rest := w.line[w.pos:]
	if i := bytes.IndexByte(rest, s.anchor); i > s.at && rest[i-1] != '\\' {
		if i -= s.at; s.litAt(rest, i) {
			w.pos += i + len(s.lit)
			switch value := rest[:i]; s.role { // the long ones without another call
			case roleReferer:
				w.ev.Referer = dashNil(value)
			case roleAgent:
				w.ev.Agent = dashNil(value)
			case roleRequest:
				splitRequest(value, w.ev)
			default:
				return w.store(s.role, value)
			}
			return true
		}
	}
	return w.until(s)
}

func (w *walk) until(s *step) bool {
	from := w.pos
	end, whole := w.find(s)
	if !whole {
		if end < len(w.line) && w.ev.Partial {
			if w.store(s.role, w.line[from:end]) {
				w.got |= s.role.field()
			}
			return false
		}
		w.storeCut(s.role, w.line[from:])
		return false
	}
	w.pos = end + len(s.lit)
	return w.store(s.role, w.line[from:end])
}

// find returns where s.lit begins behind values that cannot hold its anchor;
// the line's end if the anchor is not in it. whole: all of the literal is
// there.
func (w *walk) find(s *step) (end int, whole bool) {
	rest := w.line[w.pos:]
	from := 0
	if s.empty != "" && len(rest) >= len(s.empty) && string(rest[:len(s.empty)]) == s.empty {
		from = 2
	}
	i := bytes.IndexByte(rest[from:], s.anchor)
	if i < 0 {
		return len(w.line), false
	}
	i += from
	if s.escaped && i > 0 && rest[i-1] == '\\' {
		if i = unescapedQuote(rest, from); i < 0 {
			return len(w.line), false
		}
	}
	i -= s.at
	if i < 0 {
		return w.pos, false
	}
	return w.pos + i, hasPrefix(rest[i:], s.lit)
}

// litAt reports whether the literal stands at b[i:].
func (s *step) litAt(b []byte, i int) bool {
	if len(b)-i < 8 || s.mask == 0 {
		return hasPrefix(b[i:], s.lit)
	}
	return binary.LittleEndian.Uint64(b[i:])&s.mask == s.word
}

// setWord prepares litAt.
func (s *step) setWord() {
	if n := len(s.lit); 0 < n && n <= 8 {
		var b [8]byte
		copy(b[:], s.lit)
		s.word, s.mask = binary.LittleEndian.Uint64(b[:]), ^uint64(0)>>(64-8*n)
	}
}

// hasPrefix is [bytes.HasPrefix] for literals, which are short.
func hasPrefix(b []byte, lit string) bool {
	if len(b) < len(lit) {
		return false
	}
	for i := range len(lit) {
		if b[i] != lit[i] {
			return false
		}
	}
	return true
}

// unescapedQuote returns the index of the first quote in b[from:] that is not
// behind an odd number of backslashes, or -1.
func unescapedQuote(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func (w *walk) word(s *step) bool {
	rest := w.line[w.pos:]
	n := bytes.IndexByte(rest, ' ')
	if n < 0 {
		n = len(rest)
		if w.ev.Partial {
			w.storeCut(s.role, rest)
			return false
		}
	}
	w.pos += n
	return w.store(s.role, rest[:n])
}

func (w *walk) backWord(s *step) bool {
	i := bytes.LastIndexByte(w.line[w.pos:w.end], s.anchor)
	if i < 0 {
		return false
	}
	from := w.pos + i - s.at + len(s.lit)
	if from > w.end || !w.store(s.role, w.line[from:w.end]) {
		return false
	}
	return w.literalBack(s.lit, from)
}

func (w *walk) firstFit(s *step) bool {
	rest := w.line[w.pos:w.end]
	i := bytes.Index(rest, []byte(s.lit))
	if i < 0 {
		return false
	}
	w.pos += i + len(s.lit)
	return w.storeLoose(s.role, rest[:i])
}
