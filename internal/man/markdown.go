package man

import (
	"fmt"
	"regexp"
	"strings"
)

// Markdown writes a page from a document. Its first heading is left out, those
// below become sections; rows of tables become entries by their first column. What
// can't be put into a page is an error with its line.
func Markdown(p Page, text string, see ...string) ([]byte, error) {
	d := &document{roff: begin(p), lines: strings.Split(strings.TrimRight(text, "\n"), "\n")}
	d.section("DESCRIPTION")
	for d.at < len(d.lines) {
		if err := d.block(); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", p.File(), d.at+1, err)
		}
	}
	d.seeAlso(see)
	return d.Bytes(), nil
}

type document struct {
	*roff
	lines []string
	at    int
}

// numbered is an item of a numbered list.
var numbered = regexp.MustCompile(`^[0-9]+\. `)

// block writes what begins at the current line.
func (d *document) block() error {
	line := d.lines[d.at]
	switch {
	case strings.TrimSpace(line) == "":
		d.at++
	case strings.HasPrefix(line, "#"):
		d.heading(line)
		d.at++
	case strings.HasPrefix(line, "```"):
		return d.fence()
	case strings.HasPrefix(line, "|"):
		return d.table()
	case strings.HasPrefix(line, "- "):
		d.WriteString(".IP \\(bu 2\n")
		d.text(line[2:])
	case numbered.MatchString(line):
		n, rest, _ := strings.Cut(line, " ")
		d.WriteString(".IP " + n + " 4\n")
		d.text(rest)
	case strings.HasPrefix(line, ">"), strings.HasPrefix(line, "<"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "!["), strings.HasPrefix(line, "* "):
		return fmt.Errorf("this is not known to manual pages: %q", line)
	default:
		d.WriteString(".PP\n")
		d.text(line)
	}
	return nil
}

func (d *document) heading(line string) {
	marks, title, _ := strings.Cut(line, " ")
	switch len(marks) {
	case 1: // the name of the page says it
	case 2:
		d.WriteString(`.SH "` + inline(title) + "\"\n")
	default:
		d.WriteString(`.SS "` + inline(title) + "\"\n")
	}
}

// fence writes a block between fences.
func (d *document) fence() error {
	for end := d.at + 1; end < len(d.lines); end++ {
		if d.lines[end] == "```" {
			d.verbatim(d.lines[d.at+1 : end])
			d.at = end + 1
			return nil
		}
	}
	return fmt.Errorf("this fence is not closed")
}

// text writes a paragraph: the rest of its first line, and what follows.
func (d *document) text(first string) {
	lines := []string{first}
	for d.at++; d.at < len(d.lines); d.at++ {
		l := strings.TrimSpace(d.lines[d.at])
		if l == "" || strings.HasPrefix(l, "- ") || strings.HasPrefix(l, "|") || strings.HasPrefix(l, "#") || strings.HasPrefix(l, "```") || numbered.MatchString(l) {
			break
		}
		lines = append(lines, l)
	}
	// Marks may begin in one line and end in another.
	d.line(inline(strings.Join(lines, " ")))
}

// table writes an entry for each row.
func (d *document) table() error {
	head := cells(d.lines[d.at])
	if d.at+1 >= len(d.lines) || !strings.HasPrefix(d.lines[d.at+1], "|--") {
		return fmt.Errorf("this table has no head")
	}
	for d.at += 2; d.at < len(d.lines) && strings.HasPrefix(d.lines[d.at], "|"); d.at++ {
		row := cells(d.lines[d.at])
		if len(row) != len(head) {
			return fmt.Errorf("%d columns, but the table has %d", len(row), len(head))
		}
		tag, body := inline(row[0]), []string(nil)
		for i := 1; i < len(row); i++ {
			switch {
			case row[i] == "":
			case head[i] == "default" && row[i] == "required":
				tag += " (required)"
			case head[i] == "default":
				tag += " (default: " + inline(row[i]) + ")"
			case head[i] == "" || i == 1 && i == len(row)-1:
				body = append(body, inline(row[i]))
			default:
				body = append(body, inline(head[i])+": "+inline(row[i]))
			}
		}
		d.WriteString(".TP\n")
		d.line(tag)
		for i, b := range body {
			if i > 0 {
				d.WriteString(".br\n")
			}
			d.line(b)
		}
	}
	return nil
}

// cells are those of a table's row.
func cells(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar)
	list := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i, c := range list {
		list[i] = strings.ReplaceAll(strings.TrimSpace(c), bar, "|")
	}
	return list
}

// mark is code, a link, strong or emphasised text.
var mark = regexp.MustCompile("`([^`]+)`" + `|\[((?:[^]` + "`" + `]|` + "`[^`]*`" + `)+)\]\(([^)]+)\)|\*\*([^*]+)\*\*|\*([^* ][^*]*)\*`)

// inline writes a text with marks in it. Of a link within the page only the text
// is left, any other is named behind it.
func inline(text string) string {
	var b strings.Builder
	for {
		m := mark.FindStringSubmatchIndex(text)
		if m == nil {
			b.WriteString(plain(text))
			return b.String()
		}
		group := func(n int) string {
			if m[2*n] < 0 {
				return ""
			}
			return text[m[2*n]:m[2*n+1]]
		}
		b.WriteString(plain(text[:m[0]]))
		switch {
		case group(1) != "":
			b.WriteString(code(group(1)))
		case group(2) != "":
			b.WriteString(inline(group(2)))
			if to, _, _ := strings.Cut(group(3), "#"); to != "" {
				b.WriteString(" (" + italic(to) + ")")
			}
		case group(4) != "":
			b.WriteString(bold(group(4)))
		default:
			b.WriteString(italic(group(5)))
		}
		text = text[m[1]:]
	}
}

// code is bold. What is longer than a line may break behind its commas.
func code(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		words[i] = plain(w)
		if len(w) > 60 {
			words[i] = strings.ReplaceAll(words[i], ",", `,\:`)
		}
	}
	return `\fB` + strings.Join(words, " ") + `\fR`
}
