package lists

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDepth is how deep objects and lists may be nested.
const maxDepth = 8

// isRange reports whether the text at a path of a document is a range, and so
// says which forms are known.
func isRange(path string) bool {
	switch path {
	case "[]", // texts in a list
		".prefixes[].ipv4Prefix", ".prefixes[].ipv6Prefix", // Google; so do Bing, Apple, OpenAI and most others
		".prefixes[].ip_prefix", ".prefixes[].ipv6_prefix", ".ipv6_prefixes[].ipv6_prefix", // as Amazon writes them
		".prefixes[]",
		".addresses[]", ".ipv6_addresses[]", // Fastly
		".result.ipv4_cidrs[]", ".result.ipv6_cidrs[]", // Cloudflare
		".ipv4[]", ".ipv6[]":
		return true
	}
	return false
}

// jsonReader reads a document from its beginning to its end. Lines are counted
// on the way.
type jsonReader struct {
	*json.Decoder
	text string
	file File
	at   int // up to where lines are counted
	line int
}

func readJSON(text string) (*File, error) {
	r := &jsonReader{Decoder: json.NewDecoder(strings.NewReader(text)), text: text, line: 1}
	err := r.value("", 0)
	if err == nil {
		if _, err = r.Token(); err == nil {
			err = errors.New("something follows it")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if known := (*Error)(nil); errors.As(err, &known) {
		return nil, err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &Error{Line: r.here(), Msg: "is no valid JSON: it ends too early"}
	}
	if err != nil {
		return nil, &Error{Line: r.here(), Msg: "is no valid JSON: " + err.Error()}
	}
	if len(r.file.Entries) == 0 {
		return nil, &Error{Msg: `has no ranges in a form that is known here: {"prefixes": [{"ipv4Prefix": "192.0.2.0/24"}]}, ` +
			`["192.0.2.0/24"], or as Cloudflare, Fastly or Pingdom write them`}
	}
	return &r.file, nil
}

// here is the line of what was read last.
func (r *jsonReader) here() int {
	to := min(int(r.InputOffset()), len(r.text))
	r.line += strings.Count(r.text[r.at:max(to, r.at)], "\n")
	r.at = max(to, r.at)
	return r.line
}

// value reads the value at a path, as in ".prefixes[].ipv4Prefix".
func (r *jsonReader) value(path string, depth int) error {
	if depth > maxDepth {
		return &Error{Line: r.here(), Msg: "is nested too deeply"}
	}
	t, err := r.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		return r.inside(t, path, depth)
	case string:
		switch {
		case isRange(path):
			r.file.Entries = append(r.file.Entries, Entry{t, r.here()})
		case path == ".creationTime":
			r.file.Created = day(t)
		}
	default:
		if isRange(path) {
			return &Error{Line: r.here(), Msg: "a number, true, false or null stands where a range should be"}
		}
	}
	return nil
}

// inside reads an object or a list that has begun.
func (r *jsonReader) inside(begin json.Delim, path string, depth int) error {
	line, before := r.here(), len(r.file.Entries)
	for r.More() {
		to := path + "[]"
		if begin == '{' {
			key, err := r.Token()
			if err != nil {
				return err
			}
			to = fmt.Sprintf("%s.%v", path, key)
		}
		if err := r.value(to, depth+1); err != nil {
			return err
		}
	}
	if _, err := r.Token(); err != nil {
		return err
	}
	// A file whose ranges have other names here and there must not pass for one
	// that has fewer of them.
	if path == ".prefixes[]" && len(r.file.Entries) == before {
		return &Error{Line: line, Msg: "one of its prefixes has neither ipv4Prefix nor ipv6Prefix"}
	}
	return nil
}
