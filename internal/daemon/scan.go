package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/source"
	"github.com/tailban/tailban/parser"
	"github.com/tailban/tailban/state"
)

// To explain an address its lines are looked up where they are: in the logs,
// when somebody asks. Nothing is kept for that while lines are counted.
const (
	scanTail     = 8 << 20  // of a file, from its end or from a line
	scanAll      = 64 << 20 // of all files, for one answer
	scanKept     = 100      // lines of the address that are kept, the latest
	scanPatience = 10 * time.Second
)

// found is a line of the address that is looked for.
type found struct {
	at   detector.Line
	text []byte
}

// scan is what was found in a part of a file.
type scan struct {
	bytes int64
	lines int // of the address
	first int64
	last  int64
	kept  []found
	more  bool // there is more of the file before that
}

// finder looks for the lines of clients that are counted as one target.
type finder struct {
	format   parser.Format
	resolver *parser.Resolver
	target   netip.Prefix
	maxLine  int

	container source.Container // what wraps the lines
	text      []byte
}

func newFinder(l *config.Log, trusted []netip.Prefix, target netip.Prefix) (*finder, error) {
	f, err := l.Parser()
	if err != nil {
		return nil, err
	}
	return &finder{
		format: f, resolver: parser.NewResolver(trusted), target: target, maxLine: l.MaxLine, container: source.Container(l.Container),
	}, nil
}

// look reads up to size bytes of a file that end at end, or at its end if that
// is negative, and keeps the latest lines of the target.
func (f *finder) look(ctx context.Context, file *os.File, end, size int64) (*scan, error) {
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if end < 0 || end > st.Size() {
		end = st.Size()
	}
	begin := max(0, end-size)
	s := &scan{more: begin > 0}
	data := make([]byte, end-begin)
	n, err := file.ReadAt(data, begin)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	data = data[:n]
	s.bytes = int64(n)
	at := detector.Line{Path: file.Name(), Offset: begin}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		at.Dev, at.Ino = uint64(sys.Dev), sys.Ino
	}
	if s.more { // the first line may lack its beginning
		i := bytes.IndexByte(data, '\n') + 1
		data, at.Offset = data[i:], at.Offset+int64(i)
	}
	var ev parser.Event
	n = 0
	for line := range bytes.Lines(data) {
		if n%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		n++
		f.line(s, bytes.TrimSuffix(line, []byte{'\n'}), at, &ev)
		at.Offset += int64(len(line))
	}
	return s, nil
}

func (f *finder) line(s *scan, line []byte, at detector.Line, ev *parser.Event) {
	if f.container != "" {
		f.text = f.container.Unwrap(f.text[:0], line)
		line = f.text
	}
	cut := len(line) > f.maxLine
	if cut {
		line = line[:f.maxLine]
	}
	if f.format.Parse(line, cut, ev) != nil {
		return
	}
	client, plane := f.resolver.Resolve(ev.Peer, ev.Forward)
	if plane == parser.Nobody || !f.target.Contains(client) {
		return
	}
	s.lines++
	if s.first == 0 || ev.Time < s.first {
		s.first = ev.Time
	}
	s.last = max(s.last, ev.Time)
	if len(s.kept) >= scanKept {
		s.kept = append(s.kept[:0], s.kept[len(s.kept)-scanKept/2:]...)
	}
	s.kept = append(s.kept, found{at, bytes.Clone(line)})
}

// openLine opens the file that a line stands in: under its name, or under
// another one in the same folder if it was rotated.
func openLine(id *state.LineID) (*os.File, error) {
	base := strings.TrimSuffix(filepath.Base(id.Path), filepath.Ext(id.Path))
	f, size, err := openFound(id.Path, base, numbered(id.Dev, id.Ino))
	if err == nil && size <= id.Offset {
		f.Close()
		return nil, os.ErrNotExist
	}
	return f, err
}

// openFound opens the file that is looked for, and returns its size: under its
// name, under another in the same folder that begins with prefix or, if the name
// is a symbolic link, in the folder of what that leads to now.
func openFound(path, prefix string, is func(os.FileInfo) bool) (f *os.File, size int64, err error) {
	if f, size, err = openIf(path, is); err == nil {
		return f, size, nil
	}
	f, size, err = openIn(filepath.Dir(path), prefix, is)
	if err == nil {
		return f, size, nil
	}
	target, err2 := filepath.EvalSymlinks(path)
	if err2 != nil || filepath.Dir(target) == filepath.Dir(path) {
		return nil, 0, err
	}
	return openIn(filepath.Dir(target), "", is)
}

// openIn does the same in one folder.
func openIn(dir, prefix string, is func(os.FileInfo) bool) (f *os.File, size int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if info, err := e.Info(); err != nil || !is(info) {
			continue
		}
		if f, size, err = openIf(filepath.Join(dir, e.Name()), is); err == nil {
			return f, size, nil
		}
	}
	return nil, 0, os.ErrNotExist
}

// openIf opens a file if it is the one that is looked for.
func openIf(path string, is func(os.FileInfo) bool) (*os.File, int64, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && is(info) {
		return f, info.Size(), nil
	}
	f.Close()
	return nil, 0, os.ErrNotExist
}

// numbered is what a file of these numbers is.
func numbered(dev, ino uint64) func(os.FileInfo) bool {
	return func(info os.FileInfo) bool {
		st, ok := info.Sys().(*syscall.Stat_t)
		return ok && uint64(st.Dev) == dev && st.Ino == ino
	}
}

// withInode is what a file of this number is, on whichever device.
func withInode(ino uint64) func(os.FileInfo) bool {
	return func(info os.FileInfo) bool {
		st, ok := info.Sys().(*syscall.Stat_t)
		return ok && st.Ino == ino
	}
}

// openRegular opens a regular file without waiting for anything.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, errors.New("not a regular file")
	}
	return f, nil
}
