package source

import (
	"bytes"
	"io"
)

// recordBack is how far back the line before an offset is looked for. Runtimes
// make pieces of 16 KiB, which escapes can make six times as long.
const recordBack = 128 << 10

// A record is one or more wrapped lines, of both streams of a container, at the
// end of which no line waits for its next piece. Batches end, and positions
// are, between records.

// unwrapped is what was in some records.
type unwrapped struct {
	data   []byte  // lines, each with its line feed unless cut
	starts []int64 // where each line's first piece begins in the file
	raw    int     // length of the records
	cut    bool    // data is the beginning of one single line
	lost   int64   // lines too long that could not be sent for another line's sake
}

// pieces are what of a line has come.
type pieces struct {
	text  []byte
	start int64
	any   bool
}

// records unwraps p, whole lines that stand at the offset at of the file. It
// takes records up to one that is longer than limit, or that one alone.
// With force what p ends with is a record in any case. torn says that p ends
// inside of a wrapped line, whose beginning it is.
func (c Container) records(p []byte, at int64, limit int, force, torn bool) (u unwrapped) {
	var open [streams]pieces
	var text []byte
	data := make([]byte, 0, len(p)+1) // with what is in the record that isn't complete
	var starts []int64
	take := func(line []byte, start int64) {
		data = append(append(data, line...), '\n')
		starts = append(starts, start)
	}
	for pos := 0; pos < len(p); {
		line, start := p[pos:], at+int64(pos)
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i]
			pos++
		}
		pos += len(line)
		var says piece
		text, says = c.piece(text[:0], line)
		switch o := &open[says.stream]; {
		case !o.any && !says.more:
			take(text, start)
		case !o.any:
			*o = pieces{append(o.text[:0], text...), start, true}
		default:
			o.text = append(o.text, text...)
			if !says.more {
				take(o.text, o.start)
				o.any = false
			}
		}
		if open[0].any || open[1].any {
			if pos < len(p) || !force {
				continue
			}
			for i := range open {
				if o := &open[i]; o.any {
					take(o.text, o.start)
				}
			}
			torn = true
		}
		if pos-u.raw <= limit {
			u.data, u.starts, u.raw = data, starts, pos
			continue
		}
		if u.raw == 0 {
			u = long(data, starts, limit, torn && pos == len(p))
			u.raw = pos
		}
		break
	}
	return u
}

// long makes what can be sent of a record that is longer than limit: its only
// line, cut if need be or if its end is torn off, or those of its lines that
// are not too long.
func long(data []byte, starts []int64, limit int, torn bool) (u unwrapped) {
	if len(starts) == 1 {
		line := data[:len(data)-1]
		u.data, u.starts, u.cut = data, starts, torn || len(line) > limit
		if u.cut {
			u.data = line[:min(len(line), limit)]
		}
		return u
	}
	for i, start := range starts {
		n := bytes.IndexByte(data, '\n') + 1
		if n-1 > limit || torn && i == len(starts)-1 {
			u.lost++
		} else {
			u.data = append(u.data, data[:n]...)
			u.starts = append(u.starts, start)
		}
		data = data[n:]
	}
	return u
}

// rawLimit is how long a wrapped line may be whose text is as long as a line
// may be: with its pieces' envelopes, and some escapes.
func rawLimit(maxLine int) int { return 2*maxLine + 64<<10 }

// unwrap makes a batch of what was in the records at the offset, which end at
// next. It takes over buf, which begins with them. It returns no batch if there
// is nothing to send: of a record whose beginning was not read.
func (r *reader) unwrap(buf []byte, u unwrapped, next int64) (*Batch, error) {
	r.dropped += u.lost
	if r.skipRecord {
		r.skipRecord = false
		if i := bytes.IndexByte(u.data, '\n'); i >= 0 && !u.cut {
			u.data, u.starts = u.data[i+1:], u.starts[1:]
		} else {
			u.data, u.starts = nil, nil
		}
	}
	b, err := r.emit(buf, min(u.raw, len(buf)), next, u.cut)
	r.pool.put(buf)
	b.pool, b.buf, b.Data, b.Starts = nil, nil, u.data, u.starts
	return b, err
}

// inRecord reports whether off is inside of a record, whose beginning was not
// read. A line too long to be looked at is taken for no piece of one.
func (r *reader) inRecord(off int64) (bool, error) {
	buf := make([]byte, min(off, recordBack))
	n, err := r.f.ReadAt(buf, off-int64(len(buf)))
	if err != nil && err != io.EOF {
		return false, wrap("read last line", err)
	}
	line := bytes.TrimSuffix(buf[:n], []byte{'\n'})
	i := bytes.LastIndexByte(line, '\n')
	if i < 0 && int64(n) < off {
		return false, nil
	}
	_, says := r.wrap.piece(nil, line[i+1:])
	return says.more, nil
}
