package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

// reader gives out the lines of one file.
type reader struct {
	name   string
	in     io.ReadCloser
	blocks *blocks
	format parser.Format // for looking ahead
	limit  int           // bytes of a line

	rest []byte // of the block at hand
	cut  bool   // it is the beginning of a line
	at   detector.Line

	line  []byte // the next one
	time  int64  // of it, or of the one before if it has none; 0: not looked at
	ready bool   // there is a next line
	taken int    // bytes of the line that was given out, with its line feed; 0: none was since

	// Of a file whose lines are parsed in batches, in place of rest, cut and line:
	batches *batches
	parsing *parsing
	ahead   *ahead            // nil: they are not parsed on a goroutine of their own
	batch   *batch            // at hand; nil: none
	turn    int               // in it, of the next line
	near    []detector.Record // of those that the next line is among
}

func newReader(name string, in io.ReadCloser, limit int, format parser.Format) *reader {
	return &reader{name: name, in: in, blocks: newBlocks(in, limit), format: format, limit: limit, at: detector.Line{Path: name}}
}

// next makes the next line ready, or returns io.EOF.
func (r *reader) next() error {
	if r.ready {
		return nil
	}
	if r.batches != nil {
		return r.nextParsed()
	}
	r.at.Offset += int64(r.taken)
	r.rest = r.rest[min(r.taken, len(r.rest)):]
	r.taken = 0
	if len(r.rest) == 0 {
		b, err := r.blocks.next()
		if errors.Is(err, io.EOF) {
			return err
		}
		if err != nil {
			return r.failed(err)
		}
		r.rest, r.cut, r.at.Offset = b.data, b.cut, b.offset
	}
	r.line = r.rest
	if i := bytes.IndexByte(r.rest, '\n'); i >= 0 {
		r.line = r.rest[:i]
	}
	r.at.Number++
	r.ready = true
	return nil
}

func (r *reader) failed(err error) error {
	return fmt.Errorf("read %s after line %d: %w", r.name, r.at.Number, err)
}

// take gives out the line that is ready, which stands at r.at, of a file whose lines
// are not parsed in batches: of those [reader.record] does. Both are valid until the
// next call of next.
func (r *reader) take() (line []byte, cut bool) {
	line, cut = bounded(r.line, r.cut, r.limit)
	r.ready = false
	r.taken = len(r.line) + 1
	return line, cut
}

// text returns the line that was given out.
func (r *reader) text() []byte {
	line := r.line
	if r.batches != nil {
		line = r.batch.line(r.turn)
	}
	line, _ = bounded(line, false, r.limit)
	return line
}

// bounded cuts a line that is longer than the limit: a block can hold it, while
// a daemon would not have.
func bounded(line []byte, cut bool, limit int) ([]byte, bool) {
	if len(line) > limit {
		return line[:limit], true
	}
	return line, cut
}

// look finds the time of the line that is ready. A line without one goes with
// the line before.
func (r *reader) look() int64 {
	if r.batches != nil {
		if x := &r.batch.whose[r.turn]; !x.Failed() {
			r.time = x.Time()
		}
		return r.time
	}
	var ev parser.Event
	line, cut := bounded(r.line, r.cut, r.limit)
	if r.format.Parse(line, cut, &ev) == nil {
		r.time = ev.Time
	}
	return r.time
}

// lines takes the lines of all files through the engine. Files whose times
// overlap, as those of several sites of one server do, are merged, since a
// daemon would have read them at the same time.
func (r *replay) lines(ctx context.Context) error {
	pending := r.inputs
	var open []*reader
	defer func() {
		for _, x := range open {
			x.close()
		}
	}()
	due := func() bool { return len(pending) > 0 && r.now != 0 && pending[0].first <= r.now }
	for checked := -checkEvery; ; {
		if r.judged-checked >= checkEvery {
			if checked = r.judged; ctx.Err() != nil {
				return r.stopped(open)
			}
		}
		for len(pending) > 0 && len(open) == 0 || due() {
			x, err := r.open(pending[0].name, open)
			if err != nil {
				return err
			}
			open, pending = append(open, x), pending[1:]
		}
		x, err := earliest(open)
		if errors.Is(err, io.EOF) { // x is at its end
			open = without(open, x)
			if len(open) == 0 && len(pending) == 0 {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		for {
			if err := r.judge(ctx, x); err != nil {
				return err
			}
			// One file alone goes on as far as its lines are at hand.
			if len(open) > 1 || !x.atHand() || due() {
				break
			}
			x.step()
		}
	}
}

// judge takes the line that is ready through the engine.
func (r *replay) judge(ctx context.Context, x *reader) error {
	r.judged++
	var v *detector.Verdict
	if x.batches != nil {
		v = r.engine.Parsed(r.log, x.record(r.engine, r.log), &x.at, 0)
	} else {
		line, cut := x.take()
		v = r.engine.Line(r.log, line, cut, x.at, 0)
	}
	switch {
	case v.Time >= r.now:
		r.now = v.Time
	case v.Time != 0 && r.now != 0:
		r.sum.late.add(r.now-v.Time, &x.at)
	}
	t := v.Time
	if err := r.verdict(v, x); err != nil || r.prover == nil {
		return err
	}
	return r.lookUp(ctx, t)
}

// earliest returns the reader whose next line is the earliest, or one that is
// at its end together with io.EOF. With one reader no line is looked at.
func earliest(open []*reader) (*reader, error) {
	var best *reader
	for _, x := range open {
		fresh := !x.ready
		if err := x.next(); err != nil {
			return x, err
		}
		if len(open) == 1 {
			return x, nil
		}
		if fresh || x.time == 0 {
			x.look()
		}
		if best == nil || x.time < best.time {
			best = x
		}
	}
	return best, nil
}

func without(open []*reader, x *reader) []*reader {
	x.close()
	var rest []*reader
	for _, o := range open {
		if o != x {
			rest = append(rest, o)
		}
	}
	return rest
}

// open opens a file beside others that are open.
func (r *replay) open(name string, others []*reader) (*reader, error) {
	in, err := open(name, r.stdin)
	if err != nil {
		return nil, err
	}
	f, err := r.conf.Parser()
	if err != nil {
		in.Close()
		return nil, err
	}
	x := newReader(name, &input{unwrapped(in, &r.conf), in.Close}, r.limit, f)
	if parser.Stateless(f) || len(r.inputs) == 1 {
		x.near = make([]detector.Record, nearLines)
		x.batches, x.parsing = newBatches(x.blocks), newParsing(f, r.engine, r.limit)
		if r.cores() > 1 && parsedAhead(others) < filesAhead {
			if err := r.parseAhead(x); err != nil {
				in.Close()
				return nil, err
			}
		}
	}
	return x, nil
}

// parseAhead has the lines of a file parsed on a goroutine of their own.
func (r *replay) parseAhead(x *reader) error {
	var second *parsing
	if !x.parsing.keep {
		f, err := r.conf.Parser()
		if err != nil {
			return err
		}
		second = newParsing(f, r.engine, r.limit)
	}
	x.ahead = newAhead(x.batches, second)
	go x.ahead.run(x.parsing)
	return nil
}

// parsedAhead is how many files have their lines parsed ahead. Those of others
// are parsed when they are looked at: they need no memory for that.
func parsedAhead(open []*reader) int {
	n := 0
	for _, x := range open {
		if x.ahead != nil {
			n++
		}
	}
	return n
}

// cores is how many processor cores there are to use.
func (r *replay) cores() int {
	if r.Cores > 0 {
		return r.Cores
	}
	return runtime.GOMAXPROCS(0)
}

func (r *replay) stopped(open []*reader) error {
	if len(open) == 0 {
		return errors.New("stopped before the first line")
	}
	return fmt.Errorf("stopped at line %d of %s", open[0].at.Number, open[0].name)
}
