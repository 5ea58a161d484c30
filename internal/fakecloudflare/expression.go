package fakecloudflare

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Visit is what an expression is asked about: a request of a client at the edge.
type Visit struct {
	Addr   netip.Addr
	At     time.Time // http.request.timestamp.sec, by the edge's clock
	Host   string
	Path   string
	Method string
	Agent  string
}

// An expression is one of the rules language, with that part of it that custom rules
// about clients need: comparisons of the fields below, sets, lists, and, or, xor, not.
type expression struct {
	lists []string // the custom lists it names
	match func(v Visit, inList func(name string, a netip.Addr) bool) bool
}

const maxExpression = 4096

var errFields = "ip.src, http.request.timestamp.sec, http.host, http.request.uri.path, http.request.method, http.user_agent"

// stringField gives a field that holds text.
func stringField(name string) (func(Visit) string, bool) {
	switch name {
	case "http.host":
		return func(v Visit) string { return v.Host }, true
	case "http.request.uri.path":
		return func(v Visit) string { return v.Path }, true
	case "http.request.method":
		return func(v Visit) string { return v.Method }, true
	case "http.user_agent":
		return func(v Visit) string { return v.Agent }, true
	}
	return nil, false
}

type matcher = func(Visit, func(string, netip.Addr) bool) bool

// parseExpression reads an expression; known says which custom lists exist.
func parseExpression(text string, known func(name string) bool) (*expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("the expression has more than %d characters", maxExpression)
	}
	words, err := scan(text)
	if err != nil {
		return nil, err
	}
	p := &exprParser{words: words, known: known}
	m, err := p.or()
	if err == nil && p.at < len(p.words) {
		err = fmt.Errorf("unexpected %q", p.peek())
	}
	if err != nil {
		return nil, err
	}
	return &expression{lists: p.lists, match: m}, nil
}

// scan cuts an expression into words: a string keeps its first quote as a mark.
func scan(text string) ([]string, error) {
	var words []string
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		case c == '"':
			var b strings.Builder
			b.WriteByte('"')
			for i++; ; i++ {
				if i >= len(text) {
					return nil, fmt.Errorf("string without an end")
				}
				if text[i] == '"' {
					i++
					break
				}
				if text[i] == '\\' && i+1 < len(text) {
					i++
				}
				b.WriteByte(text[i])
			}
			words = append(words, b.String())
		case strings.ContainsRune("(){}", rune(c)):
			words = append(words, string(c))
			i++
		case strings.ContainsRune("=!<>&|^~", rune(c)):
			n := 1
			if i+1 < len(text) && slices.Contains([]string{"==", "!=", "<=", ">=", "&&", "||", "^^"}, text[i:i+2]) {
				n = 2
			}
			words = append(words, text[i:i+n])
			i += n
		default:
			n := i
			for n < len(text) && (text[n] == '_' || text[n] == '.' || text[n] == ':' || text[n] == '/' || text[n] == '$' ||
				'0' <= text[n] && text[n] <= '9' || 'a' <= text[n]|0x20 && text[n]|0x20 <= 'z') {
				n++
			}
			if n == i {
				return nil, fmt.Errorf("unexpected %q", c)
			}
			words = append(words, text[i:n])
			i = n
		}
	}
	return words, nil
}

const maxDepth = 50

type exprParser struct {
	words []string
	at    int
	depth int
	known func(string) bool
	lists []string
}

func (p *exprParser) peek() string {
	if p.at < len(p.words) {
		return p.words[p.at]
	}
	return "end of the expression"
}

func (p *exprParser) take() string {
	w := p.peek()
	p.at++
	return w
}

func (p *exprParser) accept(words ...string) bool {
	if p.at < len(p.words) && slices.Contains(words, p.words[p.at]) {
		p.at++
		return true
	}
	return false
}

func (p *exprParser) or() (matcher, error) {
	return p.chain(p.xor, func(a, b bool) bool { return a || b }, "or", "||")
}

func (p *exprParser) xor() (matcher, error) {
	return p.chain(p.and, func(a, b bool) bool { return a != b }, "xor", "^^")
}

func (p *exprParser) and() (matcher, error) {
	return p.chain(p.not, func(a, b bool) bool { return a && b }, "and", "&&")
}

func (p *exprParser) chain(next func() (matcher, error), join func(a, b bool) bool, words ...string) (matcher, error) {
	m, err := next()
	for err == nil && p.accept(words...) {
		left := m
		var right matcher
		if right, err = next(); err == nil {
			m = func(v Visit, in func(string, netip.Addr) bool) bool { return join(left(v, in), right(v, in)) }
		}
	}
	return m, err
}

func (p *exprParser) not() (matcher, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("nested too deeply")
	}
	defer func() { p.depth-- }()
	if p.accept("not", "!") {
		m, err := p.not()
		return func(v Visit, in func(string, netip.Addr) bool) bool { return !m(v, in) }, err
	}
	if p.accept("(") {
		m, err := p.or()
		if err == nil && !p.accept(")") {
			err = fmt.Errorf("expected %q, found %q", ")", p.peek())
		}
		return m, err
	}
	return p.comparison()
}

func (p *exprParser) comparison() (matcher, error) {
	field := p.take()
	switch {
	case field == "true" || field == "false":
		yes := field == "true"
		return func(Visit, func(string, netip.Addr) bool) bool { return yes }, nil
	case field == "ip.src":
		return p.address()
	case field == "http.request.timestamp.sec":
		return p.number()
	}
	if get, is := stringField(field); is {
		return p.text(get)
	}
	return nil, fmt.Errorf("unknown identifier %q; this double knows %s", field, errFields)
}

func (p *exprParser) address() (matcher, error) {
	switch op := p.take(); op {
	case "eq", "==", "ne", "!=":
		a, err := netip.ParseAddr(p.take())
		same := op == "eq" || op == "=="
		return func(v Visit, _ func(string, netip.Addr) bool) bool { return (v.Addr == a) == same }, err
	case "in":
		if name, is := strings.CutPrefix(p.peek(), "$"); is {
			p.at++
			if !p.known(name) {
				return nil, fmt.Errorf("unknown list $%s", name)
			}
			p.lists = append(p.lists, name)
			return func(v Visit, in func(string, netip.Addr) bool) bool { return in(name, v.Addr) }, nil
		}
		var from, to []netip.Addr
		err := p.set(func(w string) error {
			a, b, err := addressRange(w)
			from, to = append(from, a), append(to, b)
			return err
		})
		return func(v Visit, _ func(string, netip.Addr) bool) bool {
			for i := range from {
				if from[i].BitLen() == v.Addr.BitLen() && from[i].Compare(v.Addr) <= 0 && v.Addr.Compare(to[i]) <= 0 {
					return true
				}
			}
			return false
		}, err
	default:
		return nil, fmt.Errorf("ip.src can't be compared by %q", op)
	}
}

// addressRange reads an address, a network or "first..last".
func addressRange(w string) (first, last netip.Addr, err error) {
	if a, b, is := strings.Cut(w, ".."); is {
		if first, err = netip.ParseAddr(a); err == nil {
			last, err = netip.ParseAddr(b)
		}
		return first, last, err
	}
	if !strings.Contains(w, "/") {
		first, err = netip.ParseAddr(w)
		return first, first, err
	}
	p, err := netip.ParsePrefix(w)
	if err != nil {
		return first, last, err
	}
	p = p.Masked()
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ = netip.AddrFromSlice(b)
	return p.Addr(), last, nil
}

func (p *exprParser) number() (matcher, error) {
	op := p.take()
	if op == "in" {
		var set []int64
		err := p.set(func(w string) error {
			n, err := strconv.ParseInt(w, 10, 64)
			set = append(set, n)
			return err
		})
		return func(v Visit, _ func(string, netip.Addr) bool) bool { return slices.Contains(set, v.At.Unix()) }, err
	}
	n, err := strconv.ParseInt(p.take(), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("expected an integer: %w", err)
	}
	hold := order(op)
	if hold == nil {
		return nil, fmt.Errorf("http.request.timestamp.sec can't be compared by %q", op)
	}
	return func(v Visit, _ func(string, netip.Addr) bool) bool { return hold(v.At.Unix(), n) }, nil
}

func order(op string) func(a, b int64) bool {
	switch op {
	case "eq", "==":
		return func(a, b int64) bool { return a == b }
	case "ne", "!=":
		return func(a, b int64) bool { return a != b }
	case "lt", "<":
		return func(a, b int64) bool { return a < b }
	case "le", "<=":
		return func(a, b int64) bool { return a <= b }
	case "gt", ">":
		return func(a, b int64) bool { return a > b }
	case "ge", ">=":
		return func(a, b int64) bool { return a >= b }
	}
	return nil
}

func (p *exprParser) text(get func(Visit) string) (matcher, error) {
	op := p.take()
	if op == "in" {
		var set []string
		err := p.set(func(w string) error {
			s, is := strings.CutPrefix(w, `"`)
			if !is {
				return fmt.Errorf("expected a string, found %q", w)
			}
			set = append(set, s)
			return nil
		})
		return func(v Visit, _ func(string, netip.Addr) bool) bool { return slices.Contains(set, get(v)) }, err
	}
	s, is := strings.CutPrefix(p.take(), `"`)
	if !is {
		return nil, fmt.Errorf("expected a string after %q", op)
	}
	switch op {
	case "eq", "==":
		return func(v Visit, _ func(string, netip.Addr) bool) bool { return get(v) == s }, nil
	case "ne", "!=":
		return func(v Visit, _ func(string, netip.Addr) bool) bool { return get(v) != s }, nil
	case "contains":
		return func(v Visit, _ func(string, netip.Addr) bool) bool { return strings.Contains(get(v), s) }, nil
	}
	return nil, fmt.Errorf("a string can't be compared by %q", op)
}

// set reads { value value … }.
func (p *exprParser) set(value func(string) error) error {
	if !p.accept("{") {
		return fmt.Errorf("expected %q, found %q", "{", p.peek())
	}
	for n := 0; ; n++ {
		if p.accept("}") {
			if n == 0 {
				return fmt.Errorf("empty set")
			}
			return nil
		}
		if p.at >= len(p.words) {
			return fmt.Errorf("set without an end")
		}
		if err := value(p.take()); err != nil {
			return err
		}
	}
}
