//go:build linux

package actions

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/tailban/tailban/internal/argv"
)

// parseTemplate reads the arguments of a verb.
func parseTemplate(v argv.Verb, args []string, batch, required bool) (argv.Template, error) {
	if len(args) == 0 && required {
		return argv.Template{}, fmt.Errorf("%s: required: the program and its arguments, as a list", v)
	}
	t, wrong := argv.Parse(v, args, batch)
	var errs []error
	for _, w := range wrong {
		errs = append(errs, fmt.Errorf("%s: argument %d, %q: %w", v, w.Element, args[w.Element], w.Err))
	}
	return t, errors.Join(errs...)
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

func (v values) fill(h argv.Hole) string {
	switch h {
	case argv.Address:
		return v.target.Addr().String()
	case argv.Bits:
		return strconv.Itoa(v.target.Bits())
	case argv.Prefix:
		return v.target.String()
	case argv.Family:
		return strconv.Itoa(v.family)
	case argv.Seconds:
		return strconv.FormatInt(v.seconds, 10)
	case argv.Until:
		return strconv.FormatInt(v.until, 10)
	case argv.UntilTime:
		return time.Unix(v.until, 0).UTC().Format(time.RFC3339)
	}
	panic("no value for the placeholder " + string(h))
}

// commandLine is what a program gets on standard input for each target.
type commandLine struct {
	Verb    argv.Verb    `json:"verb"`
	Target  netip.Prefix `json:"target"`
	Address netip.Addr   `json:"address"`
	Bits    int          `json:"bits"`
	Family  int          `json:"family"`
	Seconds int64        `json:"seconds,omitempty"`
	Until   int64        `json:"until,omitempty"`
}

// appendLine appends the line of a target to the standard input of a program.
func (v values) appendLine(b []byte, what argv.Verb) []byte {
	line, err := json.Marshal(commandLine{
		Verb: what, Target: v.target, Address: v.target.Addr(), Bits: v.target.Bits(),
		Family: v.family, Seconds: v.seconds, Until: v.until,
	})
	if err != nil {
		panic(err) // of such values none can be
	}
	return append(append(b, line...), '\n')
}
