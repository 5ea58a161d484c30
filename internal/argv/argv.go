// Package argv reads the arguments of programs that the administrator gives, with
// placeholders in them. No shell is involved, so an argument stays one.
package argv

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Verb is what a program is run for.
type Verb string

// All verbs.
const (
	Ban   Verb = "ban"
	Unban Verb = "unban"
	Check Verb = "check"
	List  Verb = "list"
)

// Hole is a placeholder; {address} in an argument is that of Address.
type Hole string

// All placeholders.
const (
	Address   Hole = "address"
	Bits      Hole = "bits"
	Prefix    Hole = "prefix"
	Family    Hole = "family"
	Seconds   Hole = "seconds"
	Until     Hole = "until"
	UntilTime Hole = "until_time"
)

// Holes are the placeholders that a verb's arguments may have. In batches bans
// and unbans have none: the targets are on standard input.
func Holes(v Verb, batch bool) []Hole {
	target := []Hole{Address, Bits, Family, Prefix}
	switch {
	case v == List:
		return []Hole{Family}
	case v == Check:
		return target
	case batch:
		return nil
	case v == Ban:
		return append(target, Seconds, Until, UntilTime)
	}
	return target
}

// names are placeholders as an error lists them.
func names(holes []Hole) string {
	if len(holes) == 0 {
		return "none, as the targets are on standard input"
	}
	var out []string
	for _, h := range holes {
		out = append(out, "{"+string(h)+"}")
	}
	return strings.Join(out, ", ")
}

// Template is the arguments of a program with placeholders. The zero value is of
// a program that is not given.
type Template struct {
	Verb Verb
	args [][]piece
}

// piece of an argument: a text, or a placeholder.
type piece struct {
	text string
	hole Hole
}

// Wrong is what is wrong with one argument.
type Wrong struct {
	Element int // of the list; 0 is the program
	Err     error
}

// Parse reads the arguments of a verb, the first of which is the absolute path of
// the program itself. With errors the template is of no use.
func Parse(v Verb, args []string, batch bool) (Template, []Wrong) {
	t := Template{Verb: v}
	var wrong []Wrong
	allowed := Holes(v, batch)
	for i, arg := range args {
		pieces, err := parse(arg, allowed)
		if err == nil && i == 0 {
			err = checkPath(pieces)
		}
		if err != nil {
			wrong = append(wrong, Wrong{i, err})
		}
		t.args = append(t.args, pieces)
	}
	return t, wrong
}

func checkPath(pieces []piece) error {
	switch {
	case len(pieces) > 1 || len(pieces) == 1 && pieces[0].hole != "":
		return errors.New("the program's path can have no placeholders")
	case len(pieces) == 0 || !filepath.IsAbs(pieces[0].text):
		return errors.New("the program's path must be absolute, as in /usr/sbin/ip (it is not looked for, and no shell is used)")
	}
	return nil
}

// parse reads one argument.
func parse(arg string, allowed []Hole) ([]piece, error) {
	if strings.ContainsRune(arg, 0) {
		return nil, errors.New("an argument cannot contain a NUL")
	}
	var pieces []piece
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			pieces = append(pieces, piece{text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(arg); i++ {
		switch c := arg[i]; {
		case (c == '{' || c == '}') && i+1 < len(arg) && arg[i+1] == c:
			text.WriteByte(c)
			i++
		case c == '}':
			return nil, errors.New("a } without its {; a brace that is meant as such is written twice")
		case c == '{':
			end := strings.IndexByte(arg[i:], '}')
			if end < 0 {
				return nil, errors.New("a { without its }; a brace that is meant as such is written twice")
			}
			h := Hole(arg[i+1 : i+end])
			if !slices.Contains(allowed, h) {
				return nil, fmt.Errorf("unknown placeholder {%s}; there are here: %s", h, names(allowed))
			}
			flush()
			pieces = append(pieces, piece{hole: h})
			i += end
		default:
			text.WriteByte(c)
		}
	}
	flush()
	return pieces, nil
}

// Given reports whether there is a program at all.
func (t Template) Given() bool { return len(t.args) > 0 }

// Program is the path of it.
func (t Template) Program() string { return t.args[0][0].text }

// Has reports whether one of these is among the placeholders.
func (t Template) Has(some ...Hole) bool {
	for _, arg := range t.args {
		for _, p := range arg {
			if p.hole != "" && slices.Contains(some, p.hole) {
				return true
			}
		}
	}
	return false
}

// Expand returns the arguments with all placeholders filled in.
func (t Template) Expand(fill func(Hole) string) []string {
	out := make([]string, len(t.args))
	for i, pieces := range t.args {
		for _, p := range pieces {
			if p.hole == "" {
				out[i] += p.text
			} else {
				out[i] += fill(p.hole)
			}
		}
	}
	return out
}
