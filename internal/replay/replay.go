// Package replay runs past logs through the engine: the same code as the
// daemon's, with time taken from the lines and nothing enforced.
package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/guard"
	"github.com/tailban/tailban/internal/prove"
	"github.com/tailban/tailban/parser"
)

const (
	// lateness is how much later than others a line may come without its
	// client's window having been forgotten.
	lateness = 10 * time.Minute

	// forgetEvery is after how many lines idle memory is given back, and
	// checkEvery after how many a wish to stop is seen. Both go by lines, so
	// that no result depends on how the input arrives.
	forgetEvery = 1 << 16
	checkEvery  = 1 << 12
)

// Options make a replay.
type Options struct {
	Config *config.Config
	Log    string    // which of the configuration's logs the files are; may be empty if it has one
	Files  []string  // "-" is In
	In     io.Reader // standard input
	Out    io.Writer // decisions, and a person's summary
	Notes  io.Writer // remarks, and the summary beside JSON
	JSON   bool
	Raw    bool             // show the text of lines that don't parse
	Now    func() time.Time // for lines a second
	Cores  int              // of the processor, to use; 0: those there are. No result depends on it

	// Resolver looks up the names of clients that claim to be wanted machines; nil:
	// they aren't looked up.
	Resolver prove.Resolver
}

// Run replays the files.
func Run(ctx context.Context, o Options) error {
	r, err := prepare(ctx, o)
	if err != nil {
		return err
	}
	if r.cores() > 1 {
		r.sum.clients.beside()
		go r.sum.clients.run()
	}
	start := o.Now()
	err = r.lines(ctx)
	r.sum.clients.finish()
	r.sum.elapsed = o.Now().Sub(start)
	return errors.Join(err, r.print.flush(), r.sum.write(r.summaryTo(), r))
}

type replay struct {
	Options
	conf   config.Log // of the files; its format found out if need be
	inputs []dated
	engine *detector.Engine
	log    *detector.Log
	prover *prove.Prover // nil: names aren't looked up
	limit  int           // bytes of a line
	print  printer
	sum    summary
	stdin  io.Reader // In, with what was read of it to guess the format put back

	judged int   // lines
	now    int64 // time of the latest
	since  int   // lines since memory was given back
	oldest int64 // time of the oldest of those
}

func prepare(ctx context.Context, o Options) (*replay, error) {
	log, err := PickLog(o.Config, o.Log)
	if err != nil {
		return nil, err
	}
	r := &replay{Options: o, conf: *log, limit: log.MaxLine}
	if slices.Contains(o.Files, stdin) {
		r.stdin = newInterruptible(ctx, o.In)
	}
	if r.conf.Format == "" {
		if err := r.detect(); err != nil {
			return nil, err
		}
	}
	if err := r.order(); err != nil {
		return nil, err
	}
	format, err := r.conf.Parser()
	if err != nil {
		return nil, err
	}
	c := o.Config
	r.engine = detector.NewEngine(detector.Options{
		Jails: c.Jails, Wanted: c.Wanted, Deny: c.Deny,
		Trusted: c.TrustedProxies, Allow: c.Allow,
		Guard:     guard.New(guard.FromConfig(c.TrustedProxies, c.WaitingProxies(), c.Allow)),
		MaxMemory: c.MaxMemory, MaxBans: c.MaxBans,
		Remember: c.Remember, SharedHistory: c.SharedHistory, LooksUp: o.Resolver != nil,
	})
	if o.Resolver != nil {
		r.prover = prove.New(prove.Options{Resolver: o.Resolver})
	}
	if len(c.AllowHosts) > 0 {
		fmt.Fprintf(r.Notes, "not resolved in a replay, so not allowed: %s\n", strings.Join(c.AllowHosts, ", "))
	}
	r.log = r.engine.Log(log.Name, format)
	r.log.Rewritten = log.Rewritten
	r.log.SkipAfterUnparsed(log.SkipAfterUnparsed)
	r.print = newPrinter(o.Out, o.JSON)
	r.sum = newSummary()
	return r, nil
}

// order sets inputs: the oldest file first, unless standard input is among
// them, whose first line is not known yet.
func (r *replay) order() error {
	if len(r.Files) == 1 || slices.Contains(r.Files, stdin) {
		for _, name := range r.Files {
			r.inputs = append(r.inputs, dated{name: name, first: math.MaxInt64})
		}
		return nil
	}
	var err error
	if r.inputs, err = inOrder(r.Files, &r.conf); err != nil {
		return err
	}
	var names []string
	for _, x := range r.inputs {
		names = append(names, x.name)
	}
	if !slices.Equal(names, r.Files) {
		fmt.Fprintf(r.Notes, "reading the oldest file first: %s\n", strings.Join(names, " "))
	}
	return nil
}

// PickLog finds the log of that name, or the only one, or the only one that
// reads files, if the name is empty.
func PickLog(c *config.Config, name string) (*config.Log, error) {
	var names []string
	var ofFiles []*config.Log
	for i := range c.Logs {
		l := &c.Logs[i]
		if l.Name == name || name == "" && len(c.Logs) == 1 {
			return l, nil
		}
		names = append(names, l.Name)
		if len(l.Files) > 0 {
			ofFiles = append(ofFiles, l)
		}
	}
	if name == "" && len(ofFiles) == 1 {
		return ofFiles[0], nil
	}
	if name == "" {
		return nil, fmt.Errorf("which log are these files? The configuration has several: use --log with one of %s", strings.Join(names, ", "))
	}
	if len(c.Logs) == 1 && c.Logs[0].Format == "" { // built in
		return nil, errors.New("--log names one of a configuration's logs: name the configuration with -c")
	}
	return nil, fmt.Errorf("the configuration has no log %q: use --log with one of %s", name, strings.Join(names, ", "))
}

// detect guesses the format from the first file that has lines.
func (r *replay) detect() error {
	var first []byte
	for _, name := range r.Files {
		lines, err := r.sample(name)
		if err != nil {
			return err
		}
		if format, n := parser.Detect(lines); n > 0 {
			r.conf.Format = format
			return nil
		}
		if len(first) == 0 {
			first = firstOf(lines)
		}
	}
	if len(first) == 0 { // nothing to read: any format will do
		r.conf.Format = config.DefaultFormat
		return nil
	}
	return errNoFormat(first)
}

func errNoFormat(first []byte) error {
	hint := ""
	if container, format := WrappedAs([][]byte{first}); container != "" {
		hint = fmt.Sprintf(", which is %s inside of what %s wraps lines in: container = %q", format, container, container)
	}
	return fmt.Errorf("no format known here (%s) fits these lines; the first is %s%s",
		strings.Join(parser.FormatNames(), ", "), Excerpt(first), hint)
}

// Guess guesses the format of lines of which one at least is not empty.
func Guess(lines [][]byte) (string, error) {
	if format, n := parser.Detect(lines); n > 0 {
		return format, nil
	}
	return "", errNoFormat(firstOf(lines))
}

// firstOf returns the first line that is not empty.
func firstOf(lines [][]byte) []byte {
	for _, l := range lines {
		if len(l) > 0 {
			return l
		}
	}
	return nil
}

// sample reads the first lines of a file, and leaves standard input as if
// nothing had been read.
func (r *replay) sample(name string) ([][]byte, error) {
	if name != stdin {
		return Sample(name, &r.conf)
	}
	in, err := open(stdin, r.stdin)
	if err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(in, 64<<10))
	if err != nil && len(head) == 0 {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	r.stdin = io.MultiReader(bytes.NewReader(head), in)
	if head, err = io.ReadAll(unwrapped(bytes.NewReader(head), &r.conf)); err != nil {
		return nil, err // cannot be: it is in memory
	}
	return firstLines(head), nil
}

func (r *replay) summaryTo() io.Writer {
	if r.JSON {
		return r.Notes
	}
	return r.Out
}

// verdict counts and prints what became of the line that was given out.
func (r *replay) verdict(v *detector.Verdict, x *reader) error {
	r.sum.clients.add(v)
	if v.Step == detector.StepWanted {
		r.sum.passed(v)
	}
	if v.Err != nil {
		r.sum.unparsed(&x.at, v.Err, x.text())
	}
	r.forget(v.Time)
	return r.decisions(v)
}

// decisions counts and prints those of a line.
func (r *replay) decisions(v *detector.Verdict) error {
	for i := range v.Decisions {
		d := &v.Decisions[i]
		if !r.sum.decided(d) && !r.JSON {
			continue // refused before, and said
		}
		if err := r.print.decision(d); err != nil {
			return err
		}
	}
	return nil
}

// forget gives idle memory back from time to time. It goes by the oldest of
// many lines: one with a wrong time cannot make the engine forget what is of
// use.
func (r *replay) forget(at int64) {
	if at != 0 && (r.oldest == 0 || at < r.oldest) {
		r.oldest = at
	}
	if r.since++; r.since < forgetEvery {
		return
	}
	if r.oldest != 0 {
		r.engine.Forget(r.oldest - int64(lateness))
	}
	r.since, r.oldest = 0, 0
}

// Format guesses the format of a log from the first of the files that has
// lines.
func Format(files []string) (string, error) {
	r := replay{Options: Options{Files: files}}
	err := r.detect()
	return r.conf.Format, err
}
