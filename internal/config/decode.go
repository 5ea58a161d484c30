package config

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// decode reads TOML into tables. Values keep the decoder's types, so that a
// value of the wrong type doesn't hide what else is wrong. What can't be read
// is recorded as a problem.
func decode(name string, data []byte) (*document, map[string]any) {
	doc := &document{name: name, text: string(data), pos: &positions{}, lists: map[string]string{}}
	if len(data) > maxFile {
		doc.bad(nil, "is larger than %s", formatSize(maxFile))
		return doc, nil
	}
	pos, line, scanErr := scan(string(data))
	doc.pos = pos
	if errors.Is(scanErr, errTooDeep) {
		doc.problems = append(doc.problems, Problem{
			File: name, Line: line, Msg: "tables or lists are nested too deeply",
		})
		return doc, nil
	}
	var table map[string]any
	if _, err := toml.Decode(string(data), &table); err != nil {
		p := syntaxProblem(name, err)
		if scanErr != nil {
			// The decoder may have read a line end too many; the scanner
			// never stops behind the mistake.
			p.Line = min(p.Line, line)
		}
		doc.problems = append(doc.problems, p)
		return doc, nil
	}
	return doc, table
}

// syntaxProblem makes a decoder's error read like our own.
func syntaxProblem(name string, err error) Problem {
	p := Problem{File: name, Line: 1, Msg: err.Error()}
	var pe toml.ParseError
	if errors.As(err, &pe) {
		p.Line, p.Msg = max(pe.Position.Line, 1), pe.Message
	}
	p.Msg = strings.TrimSuffix(p.Msg, ".")
	if first, n := utf8.DecodeRuneInString(p.Msg); !strings.HasPrefix(p.Msg, "TOML") {
		p.Msg = string(unicode.ToLower(first)) + p.Msg[n:]
	}
	p.Msg += syntaxHint(p.Msg)
	return p
}

// syntaxHint guesses the mistake behind a message of the decoder.
func syntaxHint(msg string) string {
	switch {
	case strings.HasPrefix(msg, "expected a top-level item to end"),
		strings.HasPrefix(msg, "expected value but found \""):
		return ` (text, durations and sizes need quotes: "60s")`
	case strings.HasPrefix(msg, "invalid escape"):
		return " (between single quotes a backslash is only a backslash)"
	default:
		return ""
	}
}
