package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/replay"
	"github.com/tailban/tailban/parser"
)

const (
	probeShown  = 3 // lines whose fields are shown
	probeFailed = 5 // lines that don't parse
)

func newProbe(p *Process, path *string) *cobra.Command {
	var log, format, header, zone, container string
	c := &cobra.Command{
		Use:   "probe FILE",
		Short: "Show how a log is understood, field by field",
		Long: `Read the first lines of a log (compressed or not) and show what is made of
them: the share that parses, the fields of a few lines, and for lines that
don't parse their text and the first field that differs. The format is guessed, unless
--format gives it (a preset, an nginx log_format or an Apache LogFormat) or
--config and --log name a log of the configuration.`,
		Example: `  tailban probe /var/log/nginx/access.log
  tailban probe --format '$remote_addr [$time_local] "$request" $status' access.log
  tailban probe --format '%h [%{%F %T}t] "%r" %>s' --timezone Europe/Berlin access.log`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("probe takes one file, not %d", len(args))}
			}
			if !slices.Contains([]string{"", "docker", "cri"}, container) {
				return usageError{fmt.Errorf("--container %s: must be docker or cri", container)}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			l := config.Log{Format: format}
			if c.Flags().Changed("config") || log != "" {
				cfg, err := config.Load(*path, p.Env)
				if err != nil {
					return err
				}
				picked, err := replay.PickLog(cfg, log)
				if err != nil {
					return err
				}
				l = *picked
			}
			if container != "" {
				l.Container = container
			}
			if header != "" {
				l.Header = header
			}
			if zone != "" {
				z, err := config.LoadZone(zone)
				if err != nil {
					return usageError{fmt.Errorf("--timezone %s: %w", zone, err)}
				}
				l.Zone = z
			}
			lines, err := replay.Sample(args[0], &l)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(lines, func(l []byte) bool { return len(l) > 0 }) {
				return fmt.Errorf("probe %s: it holds no lines", args[0])
			}
			if l.Format == "" {
				if l.Format, err = replay.Guess(lines); err != nil {
					return fmt.Errorf("probe %s: %w", args[0], err)
				}
			}
			return probe(p.Out, &l, lines)
		},
	}
	c.Flags().StringVar(&log, "log", "", "use the format of this `log` of the configuration")
	c.Flags().StringVar(&format, "format", "", "use this `format`")
	c.Flags().StringVar(&header, "header", "", "use the forwarding header of this `name`")
	c.Flags().StringVar(&zone, "timezone", "", "times without an offset are of this `zone`, like Europe/Berlin")
	c.Flags().StringVar(&container, "container", "", "take lines out of what this `runtime` wraps them in: docker or cri")
	return c
}

// probe writes how the lines are understood.
func probe(w io.Writer, l *config.Log, lines [][]byte) error {
	f, err := l.Parser()
	if err != nil {
		return err
	}
	var shown, failed, doubtful strings.Builder
	parsed, other, bad, doubts := 0, 0, 0, 0
	broken := 0 // number of the line before, if it doesn't parse
	for i, line := range lines {
		var ev parser.Event
		switch err := f.Parse(line, false, &ev); {
		case err == nil:
			if parsed++; parsed <= probeShown {
				fmt.Fprintf(&shown, "\nline %d\n", i+1)
				showEvent(&shown, &ev)
			}
			if broken > 0 {
				if doubts++; doubts <= probeFailed {
					fmt.Fprintf(&doubtful, "  line %d, of %s, after line %d\n", i+1, ev.Peer, broken)
				}
			}
			broken = 0
		case errors.Is(err, parser.ErrNotMine):
			other++
		default:
			if bad++; bad <= probeFailed {
				fmt.Fprintf(&failed, "  line %d: %v: %s\n", i+1, err, replay.Excerpt(line))
			}
			broken = i + 1
		}
	}
	fmt.Fprintf(w, "read as %s: %d of %d lines parse", l.FormatName(), parsed, len(lines)-other)
	switch {
	case other == 1:
		fmt.Fprint(w, ", 1 is no record")
	case other > 1:
		fmt.Fprintf(w, ", %d are no records", other)
	}
	fmt.Fprintln(w)
	if bad > 0 {
		fmt.Fprintf(w, "%d don't, among them\n%s", bad, failed.String())
	}
	if doubts > 0 {
		fmt.Fprintf(w, "%d follow one that doesn't: if this server writes line feeds of a client's as they are, they can be forged (see after_unparsed), among them\n%s",
			doubts, doubtful.String())
	}
	_, err = io.WriteString(w, shown.String())
	return err
}

// showEvent writes the fields of an event. What a client may have written is
// quoted, so that nothing of it acts on a terminal.
func showEvent(w io.Writer, ev *parser.Event) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(tw, "  %s\t%v\n", name, value) }
	text := func(name string, b []byte) {
		if b != nil {
			row(name, fmt.Sprintf("%+q", b))
		}
	}
	row("peer", ev.Peer)
	row("time", time.Unix(0, ev.Time).UTC().Format(time.RFC3339Nano))
	text("header", ev.Forward)
	text("host", ev.Host)
	text("method", ev.Method)
	text("target", ev.Target)
	if len(ev.Target) > 0 {
		text("path", parser.AppendPath(nil, ev.Target))
	}
	text("protocol", ev.Proto)
	if ev.Status != 0 {
		row("status", ev.Status)
	}
	if ev.Bytes >= 0 {
		row("bytes", ev.Bytes)
	}
	text("referer", ev.Referer)
	text("agent", ev.Agent)
	text("user", ev.User)
	tw.Flush()
}
