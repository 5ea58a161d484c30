// Package man writes manual pages: those of commands from the commands
// themselves, others from Markdown.
package man

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// Page is what the head of a manual page says.
type Page struct {
	Name    string // "tailban-run"
	Section int
	Short   string    // what it is, in a few words
	Date    time.Time // of the text
	Source  string    // program and version
}

// File is the name of the page's file.
func (p *Page) File() string { return fmt.Sprintf("%s.%d", p.Name, p.Section) }

// roff is a page that is being written.
type roff struct{ bytes.Buffer }

func begin(p Page) *roff {
	r := &roff{}
	r.request("TH", strings.ToUpper(p.Name), fmt.Sprint(p.Section), p.Date.UTC().Format(time.DateOnly), p.Source)
	// No hyphenation, no stretched lines: names and options stay as they are.
	r.WriteString(".nh\n.ad l\n")
	r.section("NAME")
	r.line(plain(p.Name) + ` \- ` + plain(p.Short))
	return r
}

// request writes a request with its arguments, which are plain text.
func (r *roff) request(name string, args ...string) {
	r.WriteString("." + name)
	for _, a := range args {
		r.WriteString(` "` + plain(a) + `"`)
	}
	r.WriteByte('\n')
}

func (r *roff) section(title string) { r.request("SH", title) }

// line writes text that is roff already. Nothing in it is taken for a request.
func (r *roff) line(text string) {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	r.WriteString(text + "\n")
}

// verbatim writes lines as they are, indented.
func (r *roff) verbatim(lines []string) {
	r.WriteString(".PP\n.RS 4\n.nf\n")
	for _, l := range lines {
		r.line(plain(l))
	}
	r.WriteString(".fi\n.RE\n")
}

// plain has roff print a text as it is.
func plain(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch c {
		case '\\':
			b.WriteString(`\e`)
		case '-':
			b.WriteString(`\-`)
		case '\'':
			b.WriteString(`\(aq`)
		case '"':
			b.WriteString(`\(dq`)
		case '`':
			b.WriteString(`\(ga`)
		case '^':
			b.WriteString(`\(ha`)
		case '~':
			b.WriteString(`\(ti`)
		default:
			if c < ' ' || c > '~' {
				fmt.Fprintf(&b, `\[u%04X]`, c)
				continue
			}
			b.WriteRune(c)
		}
	}
	return b.String()
}

func bold(text string) string   { return `\fB` + plain(text) + `\fR` }
func italic(text string) string { return `\fI` + plain(text) + `\fR` }
