package source

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	blockMin = 16 << 10
	blockLow = 64 << 10 // where reading starts
	blockMax = 1 << 20  // where it ends up under load

	// rescan is how long a partial line may be for the part that is known
	// already to be simply read again when more of it arrives.
	rescan = 4 << 10
)

// reader cuts one open file into batches of whole lines.
//
// It holds no bytes between two calls: the beginning of a line whose end has
// not been written yet stays in the file, and only its length is known
// (scanned). So an idle file costs nothing, and a line without end costs no
// more than one block and, once it ends, its first maxLine bytes.
type reader struct {
	f       *os.File
	file    *File
	name    string // for positions: the name that is followed
	pool    *pool
	maxLine int       // longest line as it is in the file
	wrap    Container // what its lines are wrapped in
	textMax int       // longest line when unwrapped

	begun      int64 // where reading began
	offset     int64 // where the next line begins
	scanned    int64 // how many bytes after offset hold no line feed
	skip       bool  // offset is inside of a line that is not ours to send
	skipRecord bool  // the next line is the end of one whose beginning is not ours
	block      int   // how much to read at once
	need       int   // length of a partial line that has just been completed

	size    int64 // of the file when it was last looked at
	changed unix.Timespec
	gone    bool // no name leads to it any more
	head    head
	trail   trail

	old   []byte // what was read last before the file was rewritten, until it holds something
	whole bool   // old is all that had been read

	lost    int64  // bytes seen and not read, of a file that was rewritten; for the tail to take
	dropped int64  // lines too long that could not be sent; likewise
	zeros   int64  // bytes skipped, since a writer left them out; likewise
	blocked string // why what is in the file can't be read as lines, if so
	unlike  bool   // a very long line with zero bytes was met

	vet     bool // don't read what strangers can write to
	exposed bool // they can
	tainted bool // they could, and what they may have written is still to be left out
	left    bool // it was left out, at least some; for the tail to take

	leftTo int64 // where what was left out last ends; 0: nothing was
}

// intact, truncated and replaced are what refresh finds.
type condition string

const (
	intact    condition = ""
	truncated condition = "truncated"
	replaced  condition = "replaced"
)

// newReader reads f from offset on. align says that offset may be inside of a
// line, of which the rest is then left out.
func newReader(f *os.File, file *File, name string, offset int64, align bool, maxLine int, wrapped Container, p *pool) (*reader, error) {
	r := &reader{
		f: f, file: file, name: name, pool: p, maxLine: maxLine,
		wrap: wrapped, textMax: maxLine,
		begun: offset, offset: offset, block: blockLow,
	}
	if wrapped != "" {
		r.maxLine = rawLimit(maxLine)
	}
	if align {
		if err := r.align(offset); err != nil {
			return nil, err
		}
	}
	if err := r.head.extend(f, offset); err != nil {
		return nil, err
	}
	r.blocked = noText(r.head.raw)
	return r, r.trail.load(f, offset)
}

// refresh looks at the file's size and beginning. Anything but intact means
// that offset has lost its meaning and restart is due. grown says that the file
// is not what it was at the last look.
//
// The beginning is compared before a block is read and not after: afterwards a
// difference could not tell whether the block is of the old file or the new.
func (r *reader) refresh() (c condition, grown bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.f.Fd()), &st); err != nil {
		return intact, false, fmt.Errorf("stat: %w", err)
	}
	r.gone = st.Nlink == 0
	r.expose(st.Mode)
	if st.Size == r.size && st.Mtim == r.changed && st.Mtim != (unix.Timespec{}) {
		return intact, false, nil
	}
	before := r.size
	r.size, r.changed = st.Size, st.Mtim
	if r.size < r.offset {
		r.lost += max(before-r.offset, 0)
		return truncated, true, nil
	}
	if r.size < r.offset+r.scanned {
		r.scanned = 0 // a partial line was taken back
	}
	same, err := r.head.matches(r.f)
	if err == nil && same {
		same, err = r.trail.matches(r.f, r.offset)
	}
	if err != nil {
		r.changed = unix.Timespec{} // look again
		return intact, true, err
	}
	if !same {
		r.lost += max(before-r.offset, 0)
		return replaced, true, nil
	}
	return intact, true, nil
}

// restart begins again at the first byte, or behind what has been read already
// if the file still holds that.
func (r *reader) restart() error {
	if !r.skip {
		r.old, r.whole = bytes.Clone(r.trail.raw), r.offset == int64(len(r.trail.raw))
	}
	r.begun, r.leftTo, r.offset, r.scanned, r.need, r.skip, r.skipRecord, r.blocked = 0, 0, 0, 0, 0, false, false, ""
	r.head.reset()
	if err := r.trail.load(r.f, 0); err != nil {
		return err
	}
	_, err := r.resync()
	return err
}

// resync looks, once a rewritten file holds something, for what was read before
// it was rewritten, and goes on behind it. moved says that it was there.
func (r *reader) resync() (moved bool, err error) {
	if r.old == nil || r.size == 0 {
		return false, nil
	}
	buf := r.pool.get(int(min(r.size, searchMax)))
	defer r.pool.put(buf)
	n, err := r.f.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return false, wrap("read rewritten file", err)
	}
	end := int64(after(buf[:n], r.old, r.whole))
	r.old = nil
	r.pass(buf[:end])
	r.begun = r.offset
	return end > 0, nil
}

// behind is how many bytes are left up to the size last seen.
func (r *reader) behind() int64 { return max(r.size-r.offset, 0) }

// read reads one block, which may or may not complete a batch. more says
// whether there is anything left that has not been looked at.
func (r *reader) read() (b *Batch, more bool, err error) {
	if r.tainted {
		return nil, false, r.leaveOut()
	}
	if r.size <= r.offset+r.scanned {
		return nil, false, nil
	}
	if r.blocked != "" {
		return nil, false, r.jump(r.size)
	}
	start := r.offset
	if r.scanned >= rescan {
		start += r.scanned
	}
	want := int(min(r.size-start, int64(max(r.block, r.need))))
	buf := r.pool.get(want)
	n, err := r.f.ReadAt(buf, start)
	if err == io.EOF {
		err = nil // truncated since refresh, which will see it next time
	}
	if err != nil || start+int64(n) <= r.offset+r.scanned {
		r.pool.put(buf)
		return nil, false, wrap("read", err)
	}
	// What was read is of the file that was looked at, and not of one that has
	// taken its place and grown meanwhile, if it still stands behind the same.
	if same, err := r.trail.matches(r.f, r.offset); err != nil || !same {
		r.pool.put(buf)
		r.changed = unix.Timespec{} // look again
		return nil, err == nil, err
	}
	if n >= r.block {
		r.block = min(r.block*2, blockMax)
	} else {
		r.block = blockLow
	}
	b, err = r.take(buf, n, start)
	return b, r.size > r.offset+r.scanned || r.blocked != "" && r.size > r.offset, err
}

// take makes a batch of the first n bytes of buf, which begin at start in the
// file. It takes over buf.
func (r *reader) take(buf []byte, n int, start int64) (*Batch, error) {
	chunk := buf[:n]
	if r.offset == 0 {
		r.blocked = noText(chunk)
	}
	switch {
	case r.blocked != "":
	case r.skip:
		if err := r.skipLine(chunk); err != nil {
			r.pool.put(buf)
			return nil, err
		}
	case start == r.offset && chunk[0] == 0:
		r.skipZeros(chunk)
		r.pool.put(buf)
		return nil, nil
	case start > r.offset:
		i := bytes.IndexByte(chunk, '\n')
		if i < 0 {
			r.scanned += int64(n)
			r.unlike = r.unlike || r.scanned > 1<<20 && bytes.IndexByte(chunk, 0) >= 0
			break
		}
		length := r.scanned + int64(i)
		if length > int64(r.maxLine) {
			r.pool.put(buf)
			return r.cutLine(length)
		}
		r.need, r.scanned = int(length)+1, 0
	default:
		chunk = beforeZeros(chunk)
		end, long := wholeLines(chunk, r.maxLine)
		if end > 0 && r.wrap != "" {
			u := r.wrap.records(chunk[:end], r.offset, r.textMax, false, false)
			if u.raw == 0 && end > r.maxLine {
				u = r.wrap.records(chunk[:end], r.offset, r.textMax, true, true)
			}
			if u.raw > 0 {
				return r.unwrap(buf, u, r.offset+int64(u.raw))
			}
			r.scanned = int64(n) // pieces of a line whose last is missing
			break
		}
		if end > 0 {
			return r.emit(buf, end, r.offset+int64(end), false)
		}
		if long > 0 {
			return r.sendCut(buf, long)
		}
		r.scanned = int64(n)
	}
	r.pool.put(buf)
	return nil, nil
}

// skipLine drops the rest of a line that began before we did.
func (r *reader) skipLine(chunk []byte) error {
	i := bytes.IndexByte(chunk, '\n')
	if r.skip = i < 0; r.skip {
		i = len(chunk) - 1
	}
	r.pass(chunk[:i+1])
	if r.skip || r.wrap == "" {
		return nil
	}
	var err error
	r.skipRecord, err = r.inRecord(r.offset)
	return err
}

// pass goes on behind data, which stands at the offset, without looking at the
// file again: it may have been truncated since data was read.
func (r *reader) pass(data []byte) {
	r.head.follow(r.offset, data)
	r.trail.follow(data)
	r.offset, r.scanned = r.offset+int64(len(data)), 0
}

// jump goes on at next, without what is before.
func (r *reader) jump(next int64) error {
	r.offset, r.scanned = next, 0
	if err := r.head.extend(r.f, next); err != nil {
		return err
	}
	return r.trail.load(r.f, next)
}

// cutLine sends the beginning of the line of this length at offset.
func (r *reader) cutLine(length int64) (*Batch, error) {
	buf := r.pool.get(r.maxLine)
	n, err := r.f.ReadAt(buf, r.offset)
	if n < len(buf) {
		r.pool.put(buf)
		if err == io.EOF {
			err = nil // truncated meanwhile
		}
		r.scanned = 0
		return nil, wrap("read long line", err)
	}
	return r.sendCut(buf, int(length))
}

// sendCut sends the first maxLine bytes of buf, of a line of that length.
func (r *reader) sendCut(buf []byte, length int) (*Batch, error) {
	r.slowDown()
	next := r.offset + int64(length) + 1
	if r.wrap == "" {
		return r.emit(buf, r.maxLine, next, true)
	}
	u := r.wrap.records(buf[:r.maxLine], r.offset, r.textMax, true, true)
	return r.unwrap(buf, u, next)
}

// slowDown keeps blocks near the length of a line while lines are cut: what
// stands behind a cut line in its block is read once more.
func (r *reader) slowDown() {
	r.block = min(max(2*r.maxLine, blockMin), blockLow)
}

// emit makes a batch of the first n bytes of buf and goes on at next.
func (r *reader) emit(buf []byte, n int, next int64, cut bool) (*Batch, error) {
	from := r.offset
	r.offset, r.scanned, r.need = next, 0, 0
	r.head.follow(from, buf[:n])
	err := r.head.extend(r.f, next)
	if next == from+int64(n) {
		r.trail.follow(buf[:n])
	} else if e := r.trail.load(r.f, next); err == nil {
		err = e
	}
	return &Batch{
		File: r.file, Data: buf[:n], Offset: from, Next: next, Cut: cut,
		Position: r.position(), Behind: r.behind(), pool: r.pool, buf: buf,
	}, err
}

func (r *reader) position() Position {
	p := Position{Log: r.file.Log, Path: r.name, Dev: r.file.Dev, Ino: r.file.Ino, Offset: r.offset}
	p.Head, p.HeadLen = r.head.hash()
	p.Tail, p.TailLen = r.trail.hash()
	p.Read, p.Left, p.Exposed = r.offset-r.begun, r.leftTo, r.tainted
	return p
}

// last makes the Final batch of a file that has been read to its end: the line
// that lacks its line feed, if there is one. It always returns a batch, without
// data if the file can't be read.
func (r *reader) last() (*Batch, error) {
	rest := r.behind()
	if rest == 0 || r.skip || r.blocked != "" || r.tainted {
		err := r.jump(r.offset + rest)
		if r.tainted && rest > 0 {
			r.leftTo = r.offset
		}
		return r.final(), err
	}
	buf := r.pool.get(int(min(rest, int64(r.maxLine))))
	n, err := r.f.ReadAt(buf, r.offset)
	if n == 0 || (err != nil && err != io.EOF) {
		r.pool.put(buf)
		return r.final(), wrap("read last line", err)
	}
	torn := rest > int64(r.maxLine)
	next := r.offset + rest
	var b *Batch
	if r.wrap == "" {
		b, err = r.emit(buf, n, next, torn)
	} else {
		b, err = r.unwrap(buf, r.wrap.records(buf[:n], r.offset, r.textMax, true, torn), next)
	}
	b.Final = true
	return b, err
}

// announce makes the batch without data that says where reading goes on.
func (r *reader) announce() *Batch {
	return &Batch{
		File: r.file, Offset: r.offset, Next: r.offset,
		Position: r.position(), Behind: r.behind(),
	}
}

func (r *reader) final() *Batch {
	b := r.announce()
	b.Final = true
	return b
}

// wholeLines returns how many bytes at the beginning of p are whole lines of at
// most limit bytes each, line feed not counted. If there are none because the
// first line is longer, long is that line's length.
func wholeLines(p []byte, limit int) (end, long int) {
	last := bytes.LastIndexByte(p, '\n')
	if last < 0 {
		return 0, 0
	}
	p = p[:last+1]
	for len(p)-end-1 > limit {
		i := bytes.LastIndexByte(p[end:end+limit+1], '\n')
		if i >= 0 {
			end += i + 1
			continue
		}
		if end > 0 {
			return end, 0
		}
		return 0, bytes.IndexByte(p, '\n')
	}
	return len(p), 0
}

func wrap(step string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", step, err)
}
