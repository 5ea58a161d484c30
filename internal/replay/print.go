package replay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/words"
)

// printer writes decisions as they are made.
type printer struct {
	w      *bufio.Writer
	json   bool
	header bool // written
}

func newPrinter(w io.Writer, asJSON bool) printer {
	return printer{w: bufio.NewWriter(w), json: asJSON}
}

func (p *printer) flush() error { return p.w.Flush() }

// record is a decision as one JSON object. The README describes it: names
// and meanings stay.
type record struct {
	Time    string `json:"time"` // RFC 3339
	Jail    string `json:"jail"`
	Target  string `json:"target"`
	Client  string `json:"client"`
	Count   int    `json:"count"`
	Limit   int    `json:"limit"`
	Window  int64  `json:"window"` // seconds
	Ban     int64  `json:"ban"`    // seconds
	Offence int    `json:"offence"`
	File    string `json:"file"`
	Line    int64  `json:"line"`
	Plane   string `json:"plane"` // "direct": the kernel sees the client; "forwarded": only its proxy does
	Observe bool   `json:"observe,omitempty"`
	Refused string `json:"refused,omitempty"`

	// Of a client that claims to be a wanted machine: which, and why it isn't
	// known whether it is.
	Claims   string `json:"claims,omitempty"`
	Unproven string `json:"unproven,omitempty"`
}

func (p *printer) decision(d *detector.Decision) error {
	if p.json {
		enc := json.NewEncoder(p.w)
		enc.SetEscapeHTML(false)
		return enc.Encode(record{
			Time: time.Unix(0, d.Time).UTC().Format(time.RFC3339Nano),
			Jail: d.Jail, Target: d.Target.String(), Client: d.Client.String(),
			Count: d.Count, Limit: d.Limit, Window: int64(d.Window / time.Second), Ban: int64(d.Ban / time.Second),
			Offence: d.Offence, File: d.Line.Path, Line: d.Line.Number,
			Plane: d.Plane.String(), Observe: d.Observe, Refused: d.Refused,
			Claims: d.Claims, Unproven: d.Unproven,
		})
	}
	return p.human(d)
}

const rowFormat = "%-19s  %-24s  %-16s  %-16s  %-7s  %s\n"

func (p *printer) human(d *detector.Decision) error {
	if !p.header {
		p.header = true
		fmt.Fprintf(p.w, rowFormat, "when (UTC)", "client", "jail", "count", "offence", "until")
	}
	count := fmt.Sprintf("%d in %s", d.Count, config.FormatDuration(d.Window))
	if d.Window == 0 {
		count = "at first sight"
	}
	until := clock(d.Until)
	switch {
	case d.Refused != "":
		until = "not banned: " + d.Refused
	case d.Observe:
		until += " (observe)"
	}
	if d.Refused == "" && d.Claims != "" {
		until += fmt.Sprintf(" (unless it is %s: %s)", d.Claims, d.Unproven)
	}
	offence := fmt.Sprint(d.Offence)
	if d.Refused != "" {
		offence = "-"
	}
	_, err := fmt.Fprintf(p.w, rowFormat, clock(d.Time), words.Target(d.Target), d.Jail, count, offence, until)
	return err
}

func clock(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05") }

// Excerpt quotes a log line for a person: short, and with everything escaped
// that could act on a terminal.
func Excerpt(line []byte) string {
	const most = 120
	if len(line) <= most {
		return fmt.Sprintf("%+q", line)
	}
	return fmt.Sprintf("%+q", line[:most]) + "…"
}
