package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	esc "github.com/tailban/tailban/internal/term"
	"golang.org/x/term"
)

// style is what a word tells at first sight.
type style int

const (
	plain style = iota
	good
	odd // worth a look
	bad
	heading
)

// styled is text in a style.
type styled struct {
	text  string
	style style
}

// screen is where a command writes for a person. All that goes through it is
// made harmless: it can hold what strangers have written into a log.
type screen struct {
	w     *bufio.Writer
	width int // columns; 0: any number, nothing is shortened
	color bool
}

// newScreen writes to a process's standard output.
func newScreen(p *Process) *screen {
	s := &screen{w: bufio.NewWriter(p.Out)}
	if f, ok := p.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.width = 80
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			s.width = w
		}
		s.color = p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"
	}
	if n, err := strconv.Atoi(p.getenv("COLUMNS")); err == nil && n > 0 {
		s.width = n
	}
	return s
}

// getenv is os.Getenv for the process's environment.
func (p *Process) getenv(key string) string {
	value := ""
	for _, kv := range p.Env {
		if k, v, _ := strings.Cut(kv, "="); k == key {
			value = v
		}
	}
	return value
}

// print writes a line of strings and styled texts.
func (s *screen) print(parts ...any) {
	for _, x := range parts {
		c := toStyled(x)
		s.paint(esc.Escape(c.text), c.style)
	}
	s.w.WriteByte('\n')
}

// printf writes a line.
func (s *screen) printf(format string, args ...any) { s.print(fmt.Sprintf(format, args...)) }

// section begins a part of the output, after an empty line.
func (s *screen) section(title string) {
	s.w.WriteByte('\n')
	s.print(styled{title, heading})
}

// paint writes clean text.
func (s *screen) paint(text string, st style) {
	code := ""
	if s.color && text != "" {
		code = map[style]string{good: "32", odd: "33", bad: "31", heading: "1"}[st]
	}
	if code == "" {
		s.w.WriteString(text)
		return
	}
	s.w.WriteString("\x1b[" + code + "m" + text + "\x1b[m")
}

// flush returns the first error of writing.
func (s *screen) flush() error { return s.w.Flush() }

func toStyled(x any) styled {
	if c, ok := x.(styled); ok {
		return c
	}
	return styled{text: fmt.Sprint(x)}
}

// table is rows in columns, two spaces apart.
type table struct {
	head   []string // nil: none
	shrink []int    // columns that are shortened where the screen is narrow
	rows   []tableRow
}

type tableRow struct {
	cells []styled
	note  string // instead of cells: a line of its own, set in
}

const (
	tableIndent = 2
	tableGap    = 2
	narrowest   = 8 // what shortening leaves of a column
)

// row adds a row of strings, numbers and styled texts.
func (t *table) row(cells ...any) {
	r := tableRow{}
	for _, x := range cells {
		c := toStyled(x)
		c.text = esc.Escape(c.text)
		r.cells = append(r.cells, c)
	}
	t.rows = append(t.rows, r)
}

// note adds a line about the row before.
func (t *table) note(format string, args ...any) {
	t.rows = append(t.rows, tableRow{note: esc.Escape(fmt.Sprintf(format, args...))})
}

// write puts the table on a screen.
func (t *table) write(s *screen) {
	var rows []tableRow
	if t.head != nil {
		h := tableRow{}
		for _, x := range t.head {
			h.cells = append(h.cells, styled{text: x})
		}
		rows = append(rows, h)
	}
	rows = append(rows, t.rows...)
	widths := t.widths(rows, s.width)
	for _, r := range rows {
		if r.note != "" {
			fmt.Fprintf(s.w, "%*s%s\n", 2*tableIndent, "", r.note)
			continue
		}
		pending := tableIndent // spaces that are only written if something follows
		for i, c := range r.cells {
			text := shorten(c.text, widths[i])
			if text != "" {
				fmt.Fprintf(s.w, "%*s", pending, "")
				s.paint(text, c.style)
				pending = 0
			}
			pending += widths[i] - utf8.RuneCountInString(text) + tableGap
		}
		s.w.WriteByte('\n')
	}
}

// widths returns how wide each column is, so that all fits into a screen if
// shortening can do that.
func (t *table) widths(rows []tableRow, screen int) []int {
	var widths []int
	for _, r := range rows {
		for i, c := range r.cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	if screen == 0 || len(t.shrink) == 0 {
		return widths
	}
	over := tableIndent - tableGap - screen
	for _, w := range widths {
		if w > 0 {
			over += w + tableGap
		}
	}
	for ; over > 0; over-- {
		widest := t.shrink[0]
		for _, i := range t.shrink[1:] {
			if i < len(widths) && widths[i] > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	return widths
}

// shorten cuts text to a number of columns, and says so.
func shorten(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:max(n-1, 0)]) + "…"
}

// writeJSON writes a value, indented, in such a way that no text in it acts
// on a terminal.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(safeJSON{w})
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeJSONLine writes a value likewise, on a line of its own.
func writeJSONLine(w io.Writer, v any) error {
	enc := json.NewEncoder(safeJSON{w})
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// safeJSON takes whole JSON values and escapes what encoding/json leaves of
// the characters that can act on a terminal. They can be in strings only.
type safeJSON struct{ w io.Writer }

func (s safeJSON) Write(p []byte) (int, error) {
	out := bufio.NewWriter(s.w)
	var escape []byte
	for i := 0; i < len(p); {
		r, size := utf8.DecodeRune(p[i:])
		if r == '\n' || strconv.IsPrint(r) {
			out.Write(p[i : i+size])
		} else {
			escape = escape[:0]
			for _, unit := range utf16.AppendRune(nil, r) {
				escape = fmt.Appendf(escape, `\u%04x`, unit)
			}
			out.Write(escape)
		}
		i += size
	}
	return len(p), out.Flush()
}
