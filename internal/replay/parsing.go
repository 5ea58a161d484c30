package replay

import (
	"golang.org/x/sys/cpu"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

// known is what is asked of every line.
type known struct {
	whose []detector.Identity
	ends  []int32 // of the lines, in data
}

// parsing parses the lines of batches. It is for one goroutine.
type parsing struct {
	_      cpu.CacheLinePad
	format parser.Format
	engine *detector.Engine
	limit  int  // bytes of a line
	keep   bool // the format's events are not valid for longer than until its next line
	known       // of the batch at hand
	_      cpu.CacheLinePad
}

func newParsing(format parser.Format, engine *detector.Engine, limit int) *parsing {
	return &parsing{format: format, engine: engine, limit: limit, keep: !parser.Stateless(format), known: newKnown()}
}

// parse parses the lines, if there are any, and finds out whom they are of.
func (p *parsing) parse(b *batch) {
	if b.err != nil {
		return
	}
	from := int32(0)
	for i, end := range p.ends {
		ev := &b.events[i]
		line, cut := bounded(whole(b.data[from:end]), b.cut, p.limit)
		from = end
		err := p.format.Parse(line, cut, ev)
		if err != nil {
			b.errs[i] = err
		}
		if p.keep {
			b.texts = ev.Keep(b.texts)
		}
		p.engine.Identify(&p.whose[i], ev, err, cut)
	}
	p.hand(b)
}

// hand gives a batch what is known of its lines. It is written all at once, as
// another core has read what was there before: to take one piece of it after the
// other from there, between other work, takes many times as long.
func (p *parsing) hand(b *batch) {
	if b.buffer == nil {
		b.known = p.known
		return
	}
	if b.ends == nil {
		b.known = newKnown()
	}
	b.ends = append(b.ends[:0], p.ends...)
	copy(b.whose, p.whose[:len(p.ends)])
}

func newKnown() known {
	return known{make([]detector.Identity, batchLines), make([]int32, 0, batchLines)}
}
