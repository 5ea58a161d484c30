package man

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands writes a page of section 1 for a command and for each below it, by
// the names of their files. see are pages of other sections: "jails.toml(5)".
func Commands(root *cobra.Command, date time.Time, source string, see ...string) map[string][]byte {
	pages := map[string][]byte{}
	var write func(c *cobra.Command)
	write = func(c *cobra.Command) {
		p := Page{Name: pageName(c), Section: 1, Short: c.Short, Date: date, Source: source}
		pages[p.File()] = command(p, c, see)
		for _, sub := range below(c) {
			write(sub)
		}
	}
	write(root)
	return pages
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// below are the commands of a command that its help shows, but for help itself.
func below(c *cobra.Command) (list []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			list = append(list, sub)
		}
	}
	return list
}

func command(p Page, c *cobra.Command, see []string) []byte {
	r := begin(p)
	r.section("SYNOPSIS")
	synopsis(r, c)
	r.section("DESCRIPTION")
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	r.help(text)
	if subs := below(c); len(subs) > 0 {
		r.section("COMMANDS")
		for _, sub := range subs {
			r.WriteString(".TP\n")
			r.line(bold(sub.Name()))
			r.line(plain(sub.Short) + `, \fB` + plain(pageName(sub)) + `\fR(1).`)
		}
	}
	c.InitDefaultHelpFlag()
	r.flags("OPTIONS", c.LocalFlags())
	r.flags("OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		r.section("EXAMPLES")
		r.verbatim(unindent(c.Example))
	}
	var others []string
	if c.HasParent() {
		others = append(others, pageName(c.Parent())+"(1)")
	}
	for _, sub := range below(c) {
		others = append(others, pageName(sub)+"(1)")
	}
	r.seeAlso(append(others, see...))
	return r.Bytes()
}

func synopsis(r *roff, c *cobra.Command) {
	if subs := below(c); len(subs) > 0 {
		r.line(bold(c.CommandPath()) + ` \fIcommand\fR [\fIoptions\fR]`)
		if c.HasParent() {
			r.WriteString(".br\n")
		}
	}
	if !c.HasParent() {
		return
	}
	_, rest, _ := strings.Cut(c.Use, " ")
	r.line(strings.TrimSpace(bold(c.CommandPath())+" "+plain(rest)) + ` [\fIoptions\fR]`)
}

// help writes a help text: paragraphs, and lines that are indented as they are.
func (r *roff) help(text string) {
	for i, part := range strings.Split(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(part, "\n")
		if strings.HasPrefix(lines[0], " ") {
			r.verbatim(unindent(part))
			continue
		}
		if i > 0 {
			r.WriteString(".PP\n")
		}
		for _, l := range lines {
			r.line(plain(l))
		}
	}
}

func (r *roff) flags(title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	r.section(title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := bold("--" + f.Name)
		if f.Shorthand != "" {
			name = bold("-"+f.Shorthand) + ", " + name
		}
		if value != "" {
			name += " " + italic(value)
		}
		r.WriteString(".TP\n")
		r.line(name)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" && f.DefValue != "[]" {
			usage += fmt.Sprintf(" (default: %s)", f.DefValue)
		}
		r.line(plain(usage))
	})
}

func (r *roff) seeAlso(pages []string) {
	if len(pages) == 0 {
		return
	}
	r.section("SEE ALSO")
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		r.line(bold(name) + "(" + section + end)
	}
}

// unindent takes off what all lines are indented by, two spaces at most.
func unindent(text string) []string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return lines
}
