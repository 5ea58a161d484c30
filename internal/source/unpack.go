package source

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
)

// packed marks the device of a compressed file's identity, so that its position
// never stands where that of a file was, or will be, which had its number when
// that was free.
const packed = 1 << 63

// unpacker reads the rest of a log that was compressed before it had been read
// to its end. Offsets are those of what it holds; it goes by its own identity, as
// that of the file that it was made of may be another file's by now.
type unpacker struct {
	at      Position // up to where it was read
	file    *File
	maxLine int
	in      *bufio.Reader
	head    []byte
	trail   trail
	send    func(*Batch) bool

	announced chan struct{} // closed when its first position is known
	finished  chan struct{} // closed when at is where it ends
}

// unpack begins to read sibling, if it is the compressed form of the file that
// at is a position of, behind that. known is closed when its own position is.
func (r *follower) unpack(ctx context.Context, out chan<- *Batch, path, sibling string, at Position) (found bool, known <-chan struct{}) {
	if r.o.Container != "" {
		return false, nil
	}
	f, err := r.openSafely(sibling)
	if err != nil {
		return false, nil
	}
	id, err := identityOf(f)
	id.dev |= packed
	if err != nil {
		_ = f.Close() // only read
		return false, nil
	}
	u := &unpacker{
		at: at, maxLine: r.o.MaxLine,
		file: &File{Log: r.o.Log, Path: sibling, Dev: id.dev, Ino: id.ino},
	}
	u.at.Path, u.at.Dev, u.at.Ino, u.at.Read = path, id.dev, id.ino, 0
	found = u.begins(f, at)
	begun := r.unpacking[id]
	for _, s := range r.memory.byID[id] { // where to go on in it may be known from before
		begun = begun || at.identity() != id && u.like(s.Position)
	}
	if !found || begun {
		_ = f.Close() // only read
		return found, nil
	}
	r.unpacking[id] = true
	u.send = func(b *Batch) bool {
		n, lines := int64(len(b.Data)), b.lines()
		select {
		case out <- b:
			r.counts.bytes.Add(n)
			r.counts.lines.Add(lines)
			return true
		case <-ctx.Done():
			return false
		}
	}
	u.announced, u.finished = make(chan struct{}), make(chan struct{})
	r.unpackers = append(r.unpackers, u)
	log := r.log.With(slog.String("path", sibling))
	log.Info("reading the rest of a compressed log", slog.Int64("from", at.Offset))
	before := r.before[path]
	r.wg.Go(func() {
		defer f.Close() //nolint:errcheck // only read
		if !wait(ctx, before) || !u.send(&Batch{File: u.file, Offset: u.at.Offset, Next: u.at.Offset, Position: u.at}) {
			return
		}
		close(u.announced)
		ok, err := u.run()
		if err != nil {
			r.counts.gaps.Add(1)
			log.Warn("the rest of a compressed log can't be read", slog.Any("err", err))
		}
		if ok || err != nil {
			close(u.finished)
		}
	})
	return true, u.announced
}

// begins reports whether the compressed file begins as the position says.
func (u *unpacker) begins(f *os.File, at Position) bool {
	in, err := gzip.NewReader(f)
	if err != nil || at.HeadLen < 0 || at.HeadLen > headMax {
		return false
	}
	u.in = bufio.NewReaderSize(in, max(u.maxLine+1, headMax))
	u.head, err = u.in.Peek(int(headMax))
	if err != nil && err != io.EOF {
		return false
	}
	u.head = append([]byte(nil), u.head...)
	return u.like(at)
}

// like reports whether what is compressed begins as a position says.
func (u *unpacker) like(p Position) bool {
	n := p.HeadLen
	return n == 0 || n > 0 && n <= int64(len(u.head)) && hashHead(u.head[:n]) == p.Head
}

// run reads to the end. It returns false if it is stopped.
func (u *unpacker) run() (ok bool, err error) {
	if err := u.skip(); err != nil {
		return false, err
	}
	var data []byte
	for {
		line, err := u.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull) || err == nil && len(line) > u.maxLine+1:
			if len(data) > 0 && !u.emit(data, int64(len(data)), false) {
				return false, nil
			}
			data = nil
			if ok, err := u.cut(line, err == nil); err != nil || !ok {
				return false, err
			}
			continue
		case err == io.EOF:
			data = append(data, line...)
			return u.emit(data, int64(len(data)), false), nil
		case err != nil:
			return false, err
		}
		if data = append(data, line...); len(data) < blockLow {
			continue
		}
		if !u.emit(data, int64(len(data)), false) {
			return false, nil
		}
		data = nil
	}
}

// skip goes to where reading had stopped.
func (u *unpacker) skip() error {
	for left := u.at.Offset; left > 0; {
		buf, err := u.in.Peek(int(min(left, headMax)))
		if len(buf) == 0 {
			return wrap("find where reading had stopped", err)
		}
		u.trail.follow(buf)
		left -= int64(len(buf))
		if _, err := u.in.Discard(len(buf)); err != nil {
			return err
		}
	}
	if sum, n := u.trail.hash(); u.at.TailLen == n && n > 0 && sum != u.at.Tail {
		return errors.New("it is not what was read before")
	}
	return nil
}

// cut sends the beginning of a line that is too long, and drops its rest.
func (u *unpacker) cut(line []byte, whole bool) (ok bool, err error) {
	data := append([]byte(nil), line[:u.maxLine]...)
	u.trail.follow(line)
	length := int64(len(line))
	for !whole {
		line, err = u.in.ReadSlice('\n')
		u.trail.follow(line)
		length += int64(len(line))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && err != io.EOF {
			return false, err
		}
		whole = err == nil || err == io.EOF
	}
	return u.emit(data, length, true), nil
}

// emit sends data, which stands for the next length bytes.
func (u *unpacker) emit(data []byte, length int64, cut bool) bool {
	if !cut {
		u.trail.follow(data)
	}
	from := u.at.Offset
	u.at.Offset += length
	n := min(u.at.Offset, int64(len(u.head)))
	u.at.Head, u.at.HeadLen = hashHead(u.head[:n]), n
	u.at.Tail, u.at.TailLen = u.trail.hash()
	return u.send(&Batch{File: u.file, Data: data, Offset: from, Next: u.at.Offset, Cut: cut, Position: u.at})
}

func identityOf(f *os.File) (identity, error) {
	fi, err := f.Stat()
	if err != nil {
		return identity{}, err
	}
	return identify(fi)
}
