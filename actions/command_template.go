//go:build linux

package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verb is what a program is run for.
type verb string

const (
	verbBan   verb = "ban"
	verbUnban verb = "unban"
	verbCheck verb = "check"
	verbList  verb = "list"
)

// hole is a placeholder.
type hole string

const (
	holeAddress   hole = "address"
	holeBits      hole = "bits"
	holePrefix    hole = "prefix"
	holeFamily    hole = "family"
	holeSeconds   hole = "seconds"
	holeUntil     hole = "until"
	holeUntilTime hole = "until_time"
)

type holes []hole

func (hs holes) String() string {
	if len(hs) == 0 {
		return "none, as the targets are on standard input"
	}
	names := make([]string, len(hs))
	for i, h := range slices.Sorted(slices.Values(hs)) {
		names[i] = "{" + string(h) + "}"
	}
	return strings.Join(names, ", ")
}

// template is the arguments of a program with placeholders.
type template struct {
	verb verb
	args [][]piece
}

// piece of an argument: a text, or a placeholder.
type piece struct {
	text string
	hole hole
}

func (t template) given() bool     { return len(t.args) > 0 }
func (t template) program() string { return t.args[0][0].text }

// has reports whether one of these is among the placeholders.
func (t template) has(some ...hole) bool {
	for _, arg := range t.args {
		for _, p := range arg {
			if p.hole != "" && slices.Contains(some, p.hole) {
				return true
			}
		}
	}
	return false
}

// parseTemplate reads the arguments of a verb, which may have these
// placeholders.
func parseTemplate(v verb, argv []string, allowed holes, required bool) (template, error) {
	t := template{verb: v}
	if len(argv) == 0 {
		if required {
			return t, fmt.Errorf("%s: required: the program and its arguments, as a list", v)
		}
		return t, nil
	}
	var errs []error
	for i, arg := range argv {
		pieces, err := parseArg(arg, allowed)
		if err == nil && i == 0 {
			err = checkPath(arg, pieces)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: argument %d, %q: %w", v, i, arg, err))
		}
		t.args = append(t.args, pieces)
	}
	return t, errors.Join(errs...)
}

func checkPath(arg string, pieces []piece) error {
	switch {
	case len(pieces) != 1 || pieces[0].hole != "":
		return errors.New("the program's path can have no placeholders")
	case !filepath.IsAbs(pieces[0].text):
		return errors.New("the program's path must be absolute, as in /usr/sbin/ip (it is not looked for, and no shell is used)")
	}
	return nil
}

// parseArg reads one argument.
func parseArg(arg string, allowed holes) ([]piece, error) {
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
			h := hole(arg[i+1 : i+end])
			if !slices.Contains(allowed, h) {
				return nil, fmt.Errorf("unknown placeholder {%s}; there are here: %v", h, allowed)
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

// values are what placeholders stand for.
type values struct {
	target  netip.Prefix
	family  int // 4 or 6
	seconds int64
	until   int64 // Unix time
}

func valuesOf(target netip.Prefix) values {
	v := values{target: target, family: 6}
	if target.Addr().Is4() {
		v.family = 4
	}
	return v
}

// timed adds when a ban ends, from the time left now. The end is told in whole
// seconds, none of which is cut off.
func (v values) timed(left time.Duration, now time.Time) values {
	v.seconds = max(1, int64((left+time.Second-1)/time.Second))
	v.until = now.Add(max(left, 0) + time.Second - 1).Unix()
	return v
}

// expand returns the arguments with all placeholders filled in.
func (t template) expand(v values) []string {
	argv := make([]string, len(t.args))
	for i, pieces := range t.args {
		for _, p := range pieces {
			if p.hole == "" {
				argv[i] += p.text
			} else {
				argv[i] += v.fill(p.hole)
			}
		}
	}
	return argv
}

func (v values) fill(h hole) string {
	switch h {
	case holeAddress:
		return v.target.Addr().String()
	case holeBits:
		return strconv.Itoa(v.target.Bits())
	case holePrefix:
		return v.target.String()
	case holeFamily:
		return strconv.Itoa(v.family)
	case holeSeconds:
		return strconv.FormatInt(v.seconds, 10)
	case holeUntil:
		return strconv.FormatInt(v.until, 10)
	case holeUntilTime:
		return time.Unix(v.until, 0).UTC().Format(time.RFC3339)
	}
	panic("no value for the placeholder " + string(h))
}

// commandLine is what a program gets on standard input for each target.
type commandLine struct {
	Verb    verb         `json:"verb"`
	Target  netip.Prefix `json:"target"`
	Address netip.Addr   `json:"address"`
	Bits    int          `json:"bits"`
	Family  int          `json:"family"`
	Seconds int64        `json:"seconds,omitempty"`
	Until   int64        `json:"until,omitempty"`
}

// appendLine appends the line of a target to the standard input of a program.
func (v values) appendLine(b []byte, what verb) []byte {
	line, err := json.Marshal(commandLine{
		Verb: what, Target: v.target, Address: v.target.Addr(), Bits: v.target.Bits(),
		Family: v.family, Seconds: v.seconds, Until: v.until,
	})
	if err != nil {
		panic(err) // of such values none can be
	}
	return append(append(b, line...), '\n')
}
