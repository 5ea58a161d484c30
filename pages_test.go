package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/tailban/tailban/internal/cli"
)

// fence is a block of code in a page.
var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// Links of pages lead to files that are there, and to headings in them.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(prose(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			file := page
			if path != "" {
				file = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: a link to %s: %v", page, m[1], err)
			} else if anchor != "" && !anchors(t, file)[anchor] {
				t.Errorf("%s: a link to %s: %s has no such heading", page, m[1], file)
			}
		}
	}
}

// The index has every page.
func TestIndex(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	text := prose(t, index)
	for _, page := range pages(t) {
		if name := filepath.Base(page); filepath.Dir(page) == "docs" && page != index && !strings.Contains(text, "("+name+")") {
			t.Errorf("%s doesn't lead to %s", index, name)
		}
	}
}

// prose is a page without its blocks of code.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return fence.ReplaceAllString(string(text), "")
}

// anchors are what a browser is led to by its headings, as on GitHub.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose(t, page), -1) {
		out[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return out
}

// Every command of ours that a page names is one, with these flags.
func TestNamedCommands(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile("`(?:sudo )?tailban ([^`]*)`")
	found := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var commands []string
		for _, m := range inline.FindAllStringSubmatch(prose(t, page), -1) {
			commands = append(commands, strings.Join(strings.Fields(m[1]), " "))
		}
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "sh" && m[1] != "console" {
				continue
			}
			for _, l := range strings.Split(m[2], "\n") {
				l, isCommand := strings.CutPrefix(l, "$ ")
				l, ok := strings.CutPrefix(strings.TrimPrefix(l, "sudo "), "tailban ")
				if ok && (isCommand || m[1] == "sh") {
					commands = append(commands, l)
				}
			}
		}
		for _, c := range commands {
			found++
			var args []string
			for _, w := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(c, -1) {
				if w == "|" || w == "#" {
					break
				}
				args = append(args, strings.Trim(w, `'"`))
			}
			// With --help nothing is done. It is no value of a flag that stands alone.
			end := len(args)
			if strings.HasPrefix(args[end-1], "--") {
				end--
			}
			args = slices.Insert(args, end, "--help")
			var out bytes.Buffer
			code := cli.Main(t.Context(), cli.Process{Args: args, Out: &out, Err: &out})
			helped := code == 0 && strings.Contains(out.String(), "tailban "+args[0])
			if !helped && !strings.Contains(out.String(), "flag needs an argument") {
				t.Errorf("%s names \"tailban %s\", which is no command: exit code %d, %s", page, c, code, &out)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d commands found", found)
	}
}
