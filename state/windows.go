package state

import (
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Windows is what had been counted at one moment, and of which lines.
type Windows struct {
	Taken     time.Time
	Mark      uint64         // the number of the note of it in the state file
	Positions []Position     // up to where each file had been counted
	Allowed   []netip.Prefix // whose events did not count then

	Rules []string // what the windows' rules count, each in a text of its own

	// Of each window; the columns are of equal length.
	Rule   []uint16 // index into Rules
	Hi, Lo []uint64 // of its target's address, IPv4 in its mapped form
	Bits   []uint8  // of its target's length, of 128
	Flags  []uint8  // what else there is to know, not read here; at most 15
	Late   []uint32
	Room   []uint32
	Count  []uint32 // how many of Times are its own

	Times []int64 // of all windows' events, one window after the other, each ascending; nanoseconds since the epoch

	Bans     []WindowBan
	Offences []WindowOffence

	Traffic []LogTraffic
}

// WindowBan is a ban that kept events from counting.
type WindowBan struct {
	Target netip.Prefix
	Owner  string
	Until  int64 // nanoseconds since the epoch
}

// WindowOffence is a count of offences.
type WindowOffence struct {
	History string
	Target  netip.Prefix
	Tried   bool
	Count   int
	Last    int64 // nanoseconds since the epoch
}

// SaveWindows puts w into a file of its own (mode 0600), in the place of the
// one before, durably: at no time is there none, or half of one. The folder
// must exist. It takes as long as the disk does.
func SaveWindows(path string, w *Windows) error {
	if err := saveSnapshot(path, func(to io.Writer) error { return writeWindows(to, w) }); err != nil {
		return fmt.Errorf("save windows to %s: %w", path, err)
	}
	return nil
}

// saveSnapshot puts what is written into a file, in the place of the one before.
func saveSnapshot(path string, content func(io.Writer) error) error {
	name := path + newSuffix
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove what a crash left: %w", err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return explainOpen(name, err)
	}
	giveToOwner(f, filepath.Dir(path))
	err = content(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(name, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return syncDir(filepath.Dir(path))
}

// maxWindows is the largest file of windows that is read.
const maxWindows = 4 << 30

// LoadWindows reads what SaveWindows has written. It returns nil if there is no
// such file. Whatever is wrong with it is an error: it can then be no more than
// ignored, and is replaced by the next SaveWindows.
func LoadWindows(path string) (*Windows, error) {
	data, err := loadSnapshot(path, maxWindows)
	if err == nil && data == nil {
		return nil, nil
	}
	var w *Windows
	if err == nil {
		w, err = decodeWindows(data)
	}
	if err != nil {
		return nil, fmt.Errorf("read windows from %s: %w", path, err)
	}
	return w, nil
}

// loadSnapshot reads what saveSnapshot has written; nil: there is no file.
func loadSnapshot(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explainOpen(path, err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Size() > most:
		return nil, fmt.Errorf("it has %d bytes, at most %d can be right", info.Size(), most)
	}
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, err
	}
	return data, nil
}

// summed writes to a file, and keeps a checksum of what it has written.
type summed struct {
	to  io.Writer
	sum hash.Hash32
	buf []byte
	err error
}

const flushAt = 64 << 10

func newSummed(to io.Writer) *summed {
	return &summed{to: to, sum: crc32.New(crc32.MakeTable(crc32.Castagnoli)), buf: make([]byte, 0, flushAt+4<<10)}
}

// room is to be called now and then: the buffer grows otherwise.
func (s *summed) room() {
	if len(s.buf) >= flushAt {
		s.flush()
	}
}

func (s *summed) flush() {
	s.sum.Write(s.buf) // never fails
	s.write(s.buf)
	s.buf = s.buf[:0]
}

func (s *summed) write(p []byte) {
	if s.err == nil {
		_, s.err = s.to.Write(p)
	}
}
