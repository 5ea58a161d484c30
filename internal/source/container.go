package source

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Container is an outer format: how a runtime wraps the lines of a container.
type Container string

const (
	// Docker is the driver json-file, one JSON object a line; a line that was
	// written in pieces lacks its line feed in all but the last.
	Docker Container = "docker"

	// CRI is what Kubernetes' runtimes write: time, stream, P (a piece, more
	// follows) or F (the last, or only one), text.
	CRI Container = "cri"
)

// Unwrap appends the text of one line, without its line feed, to dst. A line
// that isn't wrapped is appended as it is. Line feeds inside of the text become
// \n, two characters, so that one line stays one.
func (c Container) Unwrap(dst, line []byte) []byte {
	dst, _ = c.piece(dst, line)
	return dst
}

// piece is what a wrapped line says about its text.
type piece struct {
	stream byte // index of the stream
	more   bool // the line goes on in the next piece of the stream
}

const streams = 2

func (c Container) piece(dst, line []byte) ([]byte, piece) {
	if c == CRI {
		return criPiece(dst, line)
	}
	return dockerPiece(dst, line)
}

// criPiece reads the log format of Kubernetes' container runtime interface.
func criPiece(dst, line []byte) ([]byte, piece) {
	_, rest, ok := bytes.Cut(line, []byte{' '})
	stream, rest, ok2 := bytes.Cut(rest, []byte{' '})
	tags, text, _ := bytes.Cut(rest, []byte{' '})
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	var p piece
	switch string(stream) {
	case "stdout":
	case "stderr":
		p.stream = 1
	default:
		ok = false
	}
	switch string(tag) {
	case "F":
	case "P":
		p.more = true
	default:
		ok = false
	}
	if !ok || !ok2 {
		return append(dst, line...), piece{}
	}
	return append(dst, text...), p
}

// dockerPiece reads the log format of Docker's json-file driver.
func dockerPiece(dst, line []byte) ([]byte, piece) {
	const begin = `{"log":"`
	if !bytes.HasPrefix(line, []byte(begin)) {
		var o struct {
			Log    *string `json:"log"`
			Stream string  `json:"stream"`
		}
		if err := json.Unmarshal(line, &o); err != nil || o.Log == nil {
			return append(dst, line...), piece{}
		}
		text := (*o.Log)[:min(len(*o.Log), len(line))] // never longer than it was wrapped
		return dockerText(append(dst, text...), len(dst), o.Stream == "stderr")
	}
	from := len(dst)
	dst, rest := unquote(dst, line[len(begin):])
	return dockerText(dst, from, bytes.Contains(rest, []byte(`"stream":"stderr"`)))
}

// dockerText takes the line feed that ends a line from the text that begins at
// from, and replaces others.
func dockerText(dst []byte, from int, stderr bool) ([]byte, piece) {
	var p piece
	if stderr {
		p.stream = 1
	}
	text, whole := bytes.CutSuffix(dst[from:], []byte{'\n'})
	p.more = !whole
	if bytes.IndexByte(text, '\n') >= 0 {
		text = bytes.ReplaceAll(text, []byte{'\n'}, []byte(`\n`))
	}
	return append(dst[:from], text...), p
}

// unquote appends what the JSON string says whose inside p begins with, and
// returns what is behind the string. A string without end, of a line that was
// cut, says what it holds.
func unquote(dst, p []byte) (out, rest []byte) {
	for len(p) > 0 {
		i := bytes.IndexAny(p, `"\`)
		if i < 0 {
			return append(dst, p...), nil
		}
		dst = append(dst, p[:i]...)
		if p[i] == '"' {
			return dst, p[i+1:]
		}
		p = p[i+1:]
		if len(p) == 0 {
			return dst, nil
		}
		c := p[0]
		p = p[1:]
		switch c {
		case 'n':
			c = '\n'
		case 't':
			c = '\t'
		case 'r':
			c = '\r'
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'u':
			var r rune
			r, p = codePoint(p)
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
	return dst, nil
}

// codePoint reads what follows \u: four digits, and a second escape if these
// are half of a character.
func codePoint(p []byte) (r rune, rest []byte) {
	r, ok := hex4(p)
	if !ok {
		return utf8.RuneError, p
	}
	p = p[4:]
	if !utf16.IsSurrogate(r) {
		return r, p
	}
	if bytes.HasPrefix(p, []byte(`\u`)) {
		if low, ok := hex4(p[2:]); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				return both, p[6:]
			}
		}
	}
	return utf8.RuneError, p
}

func hex4(p []byte) (rune, bool) {
	if len(p) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p[:4]), 16, 16)
	return rune(n), err == nil
}
