package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
)

// Regulars is who comes again and again, as far as that is remembered. Days are
// counted from 1970-01-01 (UTC).
type Regulars struct {
	Clients []Regular
	Logs    []LogMajority
}

// Regular is a client and the days on which it was seen.
type Regular struct {
	Target  netip.Prefix // IPv4 /32 or IPv6 /64
	Day     uint16       // the latest day on which it was seen
	Days    uint16       // bit i: seen i days before that
	First   uint16       // the first day on which it was seen
	Minute  uint32       // when it was last seen, in minutes since 1970
	Vouched bool         // a user of it was one that a server has checked
}

// LogMajority is an address that stood for most of a log's lines, and on which
// days; as in [Regular].
type LogMajority struct {
	Log  string
	Addr netip.Addr
	Day  uint16
	Days uint16
}

// The file of regulars is
//
//	magic | version | body | CRC-32C of all before it (4 bytes, big endian)
//
// and its body, with numbers as varints and texts behind their length:
//
//	clients: number, then of each prefix, day, days, first, minute, vouched
//	logs: number, then of each its name, address (as a prefix), day, days
//
// Every later version must keep magic and version as they are here.
const (
	regularsMagic   = "tailban regulars\n"
	regularsVersion = 1
	maxRegulars     = 64 << 20 // bytes of the largest file that is read
)

// SaveRegulars is SaveWindows for regulars.
func SaveRegulars(path string, r *Regulars) error {
	if err := saveSnapshot(path, func(to io.Writer) error { return writeRegulars(to, r) }); err != nil {
		return fmt.Errorf("save regulars to %s: %w", path, err)
	}
	return nil
}

// LoadRegulars is LoadWindows for regulars.
func LoadRegulars(path string) (*Regulars, error) {
	data, err := loadSnapshot(path, maxRegulars)
	if err != nil || data == nil {
		return nil, explainRegulars(path, err)
	}
	r, err := decodeRegulars(data)
	return r, explainRegulars(path, err)
}

func explainRegulars(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read regulars from %s: %w", path, err)
}

func writeRegulars(to io.Writer, r *Regulars) error {
	s := newSummed(to)
	s.buf = append(s.buf, regularsMagic...)
	s.uint(regularsVersion)
	s.uint(uint64(len(r.Clients)))
	for i := range r.Clients {
		c := &r.Clients[i]
		s.room()
		s.buf = appendPrefix(s.buf, c.Target)
		s.uint(uint64(c.Day))
		s.uint(uint64(c.Days))
		s.uint(uint64(c.First))
		s.uint(uint64(c.Minute))
		s.bool(c.Vouched)
	}
	s.uint(uint64(len(r.Logs)))
	for i := range r.Logs {
		l := &r.Logs[i]
		s.text(l.Log)
		s.buf = appendPrefix(s.buf, netip.PrefixFrom(l.Addr, l.Addr.BitLen()))
		s.uint(uint64(l.Day))
		s.uint(uint64(l.Days))
	}
	s.flush()
	s.write(s.sum.Sum(nil))
	return s.err
}

func decodeRegulars(data []byte) (*Regulars, error) {
	end := len(data) - crc32.Size
	if end < len(regularsMagic) || !bytes.HasPrefix(data, []byte(regularsMagic)) {
		return nil, errors.New("it is no file of regulars")
	}
	d := &decoding{data: data[len(regularsMagic):end]}
	if v := d.uint(); d.err == nil && v != regularsVersion {
		return nil, fmt.Errorf("it is of version %d, this is for %d", v, regularsVersion)
	}
	if binary.BigEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)) {
		return nil, errors.New("its checksum is wrong")
	}
	r := &Regulars{}
	for n := d.number(10); n > 0 && d.err == nil; n-- {
		r.Clients = append(r.Clients, Regular{
			Target: d.prefix(), Day: d.day(), Days: d.day(), First: d.day(), Minute: uint32(d.count()), Vouched: d.byte() != 0,
		})
	}
	for n := d.number(8); n > 0 && d.err == nil; n-- {
		r.Logs = append(r.Logs, LogMajority{Log: d.text(), Addr: d.prefix().Addr(), Day: d.day(), Days: d.day()})
	}
	if d.err == nil && len(d.data) != 0 {
		d.fail(fmt.Errorf("%d bytes too many", len(d.data)))
	}
	if d.err != nil {
		return nil, d.err
	}
	return r, nil
}

// day reads 16 bits.
func (d *decoding) day() uint16 {
	v := d.uint()
	if v > 0xffff {
		d.fail(fmt.Errorf("no day: %d", v))
	}
	return uint16(v)
}
