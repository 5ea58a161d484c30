package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/term"
	"github.com/tailban/tailban/internal/words"
)

func newEvents(a *connection) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "events",
		Short: "Follow what happens, until an interrupt",
		Long: `Show what happens from now on, a line each: bans and their ends, decisions of
jails that observe or that were refused, what people do by hand, reloads and
alarms. It ends with an interrupt (exit code 0), or, after an event of kind
"lost", when the daemon stops or this reader is too slow (exit code 1).`,
		Example: `  tailban events
  tailban events --json | jq -r 'select(.kind == "ban") | .target'`,
		Args: noArgs,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line for each event")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		events, err := a.client().Follow(ctx)
		if interrupted(ctx) {
			return nil
		}
		if err != nil {
			return err
		}
		s := newScreen(a.p)
		for e := range events {
			if err := writeEvent(a.p.Out, s, &e, asJSON); err != nil {
				return err
			}
			if e.Kind == control.EventLost {
				err = fmt.Errorf("events end here: %s", term.Escape(e.Reason))
			}
		}
		if interrupted(ctx) {
			return nil
		}
		if err == nil {
			err = errors.New("events end here: the daemon ended the connection")
		}
		return err
	}
	return c
}

// writeEvent writes an event, at once.
func writeEvent(w io.Writer, s *screen, e *control.Event, asJSON bool) error {
	if !asJSON {
		showEventLine(s, e)
		return s.flush()
	}
	return writeJSONLine(w, e)
}

// showEventLine writes an event for a person. Columns are as wide as most
// need: those that follow can't be known.
func showEventLine(s *screen, e *control.Event) {
	kind := styled{text: fmt.Sprintf("%-8s", e.Kind)}
	switch e.Kind {
	case "ban", "extend":
		kind.style = bad
	case "observe", "refuse", "past", "hold":
		kind.style = odd
	case "alarm", control.EventLost:
		kind.style = bad
	case "end", "unban", "allow", "resume", "recover":
		kind.style = good
	}
	s.print(clock(e.Time), "  ", kind, strings.TrimRight(eventText(e), " "))
}

func eventText(e *control.Event) string {
	var b strings.Builder
	if e.Target.IsValid() {
		fmt.Fprintf(&b, "  %-18s", words.Target(e.Target))
	}
	if e.Jail != "" {
		fmt.Fprintf(&b, "  %-8s", e.Jail)
	}
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Count > 0 {
		add("%s", inWindow(e.Count, e.Window))
	}
	if e.Offence > 1 {
		add("offence %d", e.Offence)
	}
	if !e.Until.IsZero() {
		add("until %s", clock(e.Until))
	}
	if e.By != "" {
		add("by %s", e.By)
	}
	if e.Reason != "" {
		add("%s", e.Reason)
	}
	if e.Line != nil {
		add("%s", strings.TrimSpace(requestText(e.Line)+" "+statusText(e.Line)))
	}
	if len(parts) > 0 {
		b.WriteString("  " + commas(parts))
	}
	return b.String()
}
