package state

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/netip"
	"slices"
	"time"
)

// The file of windows is
//
//	magic | version | body | CRC-32C of all before it (4 bytes, big endian)
//
// and its body, with numbers as varints and texts behind their length:
//
//	taken (Unix time in nanoseconds)
//	mark
//	positions: number, then of each its JSON
//	allowed: number, then the prefixes as in keys of the state file
//	rules: number, then the texts
//	windows: their number, that of all times, and the unit of times in nanoseconds;
//	  then of each its rule, a tag (flags, and the kind of key times 16), the key
//	  (4 bytes of IPv4, 8 of an IPv6 /64, or 16 and the length), late, room, its
//	  number of times, the first as the difference to that of the window before, the
//	  others as the difference to the one before
//	bans: number, then of each the prefix as in keys of the state file, owner, until
//	offences: number, then of each history, prefix, tried, count, last
//	traffic: number, then of each log its JSON
//
// Version 1 had neither mark nor allowed, version 2 no traffic; they are not read.
// Every later version must keep magic and version as they are here.
const (
	windowsMagic   = "tailban windows\n"
	windowsVersion = 3
)

// Kinds of keys.
const (
	keyAny = iota
	keyV4
	key64
)

// maxTag is the largest tag.
const maxTag = key64<<4 | 15

const mapped = 0xffff << 32 // the lower half of an IPv4 address in its mapped form

// writeWindows writes the whole file.
func writeWindows(to io.Writer, w *Windows) error {
	s := newSummed(to)
	s.buf = append(s.buf, windowsMagic...)
	s.uint(windowsVersion)
	s.int(w.Taken.UnixNano())
	s.uint(w.Mark)
	s.uint(uint64(len(w.Positions)))
	for i := range w.Positions {
		p, err := json.Marshal(&w.Positions[i])
		if err != nil {
			return fmt.Errorf("position: %w", err)
		}
		s.text(string(p))
	}
	s.uint(uint64(len(w.Allowed)))
	for _, p := range w.Allowed {
		s.buf = appendPrefix(s.buf, p)
		s.room()
	}
	s.uint(uint64(len(w.Rules)))
	for _, r := range w.Rules {
		s.text(r)
	}
	s.windows(w)
	s.uint(uint64(len(w.Bans)))
	for i := range w.Bans {
		b := &w.Bans[i]
		s.buf = appendPrefix(s.buf, b.Target)
		s.text(b.Owner)
		s.int(b.Until)
	}
	s.uint(uint64(len(w.Offences)))
	for i := range w.Offences {
		o := &w.Offences[i]
		s.text(o.History)
		s.buf = appendPrefix(s.buf, o.Target)
		s.bool(o.Tried)
		s.uint(uint64(o.Count))
		s.int(o.Last)
	}
	s.uint(uint64(len(w.Traffic)))
	for i := range w.Traffic {
		if err := s.traffic(&w.Traffic[i]); err != nil {
			return err
		}
	}
	s.flush()
	s.write(s.sum.Sum(nil))
	return s.err
}

func (s *summed) uint(v uint64) { s.buf = binary.AppendUvarint(s.buf, v) }
func (s *summed) int(v int64)   { s.buf = binary.AppendVarint(s.buf, v) }

func (s *summed) text(t string) {
	s.uint(uint64(len(t)))
	s.buf = append(s.buf, t...)
	s.room()
}

func (s *summed) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	s.buf = append(s.buf, b)
}

func (s *summed) windows(w *Windows) {
	unit := unitOf(w.Times)
	s.uint(uint64(len(w.Rule)))
	s.uint(uint64(len(w.Times)))
	s.uint(uint64(unit))
	times, first := w.Times, int64(0)
	for i, rule := range w.Rule {
		s.room()
		s.uint(uint64(rule))
		hi, lo, bits := w.Hi[i], w.Lo[i], w.Bits[i]
		switch {
		case hi == 0 && lo>>32 == mapped>>32 && bits == 128:
			s.buf = append(s.buf, keyV4<<4|w.Flags[i])
			s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(lo))
		case lo == 0 && bits == 64:
			s.buf = append(s.buf, key64<<4|w.Flags[i])
			s.buf = binary.BigEndian.AppendUint64(s.buf, hi)
		default:
			s.buf = append(s.buf, keyAny<<4|w.Flags[i])
			s.buf = binary.BigEndian.AppendUint64(s.buf, hi)
			s.buf = binary.BigEndian.AppendUint64(s.buf, lo)
			s.buf = append(s.buf, bits)
		}
		s.uint(uint64(w.Late[i]))
		s.uint(uint64(w.Room[i]))
		n := w.Count[i]
		s.uint(uint64(n))
		for j, t := range times[:n] {
			s.room()
			t /= unit
			if j == 0 {
				s.int(t - first)
				first = t
			} else {
				s.uint(uint64(t - times[j-1]/unit))
			}
		}
		times = times[n:]
	}
}

// unitOf returns the coarsest unit that all times are multiples of.
func unitOf(times []int64) int64 {
	unit := int64(time.Second)
	for _, t := range times {
		for t%unit != 0 {
			unit /= 1000
		}
	}
	return unit
}

var errShort = errors.New("it ends too early")

// decoding is what is left of a file's body, up to the first thing that is
// wrong.
type decoding struct {
	data []byte
	err  error
}

// decodeWindows reads the whole file. What it allocates is at most some times
// as long as data.
func decodeWindows(data []byte) (*Windows, error) {
	if len(data) < len(windowsMagic) || string(data[:len(windowsMagic)]) != windowsMagic {
		return nil, errors.New("it is no file of windows")
	}
	d := &decoding{data: data[len(windowsMagic):]}
	if v := d.uint(); d.err != nil || v != windowsVersion {
		return nil, fmt.Errorf("its version is %d, this tailban knows %d", v, windowsVersion)
	}
	if len(d.data) < sumLen {
		return nil, errShort
	}
	end := len(data) - sumLen
	if got, want := crc32.Checksum(data[:end], crc32.MakeTable(crc32.Castagnoli)), binary.BigEndian.Uint32(data[end:]); got != want {
		return nil, fmt.Errorf("its checksum is %08x, should be %08x", got, want)
	}
	d.data = d.data[:len(d.data)-sumLen]
	w := &Windows{Taken: time.Unix(0, d.int()).UTC(), Mark: d.uint()}
	for range d.number(2) {
		w.Positions = append(w.Positions, d.position())
	}
	for range d.number(6) {
		w.Allowed = append(w.Allowed, d.prefix())
	}
	for range d.number(1) {
		w.Rules = append(w.Rules, d.text())
	}
	d.windows(w)
	for range d.number(8) {
		w.Bans = append(w.Bans, WindowBan{d.prefix(), d.text(), d.int()})
	}
	for range d.number(10) {
		w.Offences = append(w.Offences, WindowOffence{d.text(), d.prefix(), d.byte() != 0, d.count(), d.int()})
	}
	for range d.number(2) {
		w.Traffic = append(w.Traffic, d.traffic())
	}
	if d.err == nil && len(d.data) != 0 {
		d.fail(fmt.Errorf("%d bytes too many", len(d.data)))
	}
	if d.err != nil {
		return nil, d.err
	}
	return w, nil
}

func (d *decoding) windows(w *Windows) {
	n := d.number(8)
	total := d.number(1)
	unit := int64(d.uint())
	if d.err == nil && !slices.Contains([]int64{1, 1e3, 1e6, 1e9}, unit) {
		d.fail(fmt.Errorf("no unit of times: %d", unit))
	}
	w.Rule, w.Flags, w.Bits = make([]uint16, 0, n), make([]uint8, 0, n), make([]uint8, 0, n)
	w.Hi, w.Lo = make([]uint64, 0, n), make([]uint64, 0, n)
	w.Late, w.Room, w.Count = make([]uint32, 0, n), make([]uint32, 0, n), make([]uint32, 0, n)
	w.Times = make([]int64, 0, total)
	first := int64(0)
	for i := 0; i < n && d.err == nil; i++ {
		rule, tag := d.uint(), d.byte()
		var hi, lo uint64
		bits := uint8(128)
		switch tag >> 4 {
		case keyV4:
			lo = mapped | uint64(binary.BigEndian.Uint32(d.take(4)))
		case key64:
			hi, bits = binary.BigEndian.Uint64(d.take(8)), 64
		default:
			hi, lo, bits = binary.BigEndian.Uint64(d.take(8)), binary.BigEndian.Uint64(d.take(8)), d.byte()
		}
		late, room, count := d.count(), d.count(), d.count()
		if rule >= uint64(len(w.Rules)) || tag > maxTag || bits > 128 || count > total-len(w.Times) {
			d.fail(errors.New("a window has a value that none can have"))
			return
		}
		w.Rule, w.Flags = append(w.Rule, uint16(rule)), append(w.Flags, tag&15)
		w.Hi, w.Lo, w.Bits = append(w.Hi, hi), append(w.Lo, lo), append(w.Bits, bits)
		w.Late, w.Room, w.Count = append(w.Late, uint32(late)), append(w.Room, uint32(room)), append(w.Count, uint32(count))
		if count > 0 {
			first = d.times(w, first, count, unit)
		}
	}
	if d.err == nil && len(w.Times) != total {
		d.fail(errors.New("the number of events is wrong"))
	}
}

var errTime = errors.New("an event has a time that none can have")

// times reads those of one window and returns the first, in units. before is
// that of the window before.
func (d *decoding) times(w *Windows, before int64, count int, unit int64) (first int64) {
	first = before + d.int()
	for t, left := first, count; ; left-- {
		if t > math.MaxInt64/unit || t < math.MinInt64/unit {
			d.fail(errTime)
		}
		if d.err != nil {
			return first
		}
		w.Times = append(w.Times, t*unit)
		if left == 1 {
			return first
		}
		next := t + int64(d.uint())
		if next < t { // beyond an int64
			d.fail(errTime)
		}
		t = next
	}
}

func (d *decoding) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.data = nil
}

func (d *decoding) uint() uint64 {
	v, n := binary.Uvarint(d.data)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoding) int() int64 {
	v, n := binary.Varint(d.data)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.data = d.data[n:]
	return v
}

// number reads how many of something follow, each of at least that many bytes.
func (d *decoding) number(least int) int {
	v := d.uint()
	if v > uint64(len(d.data)/least) {
		d.fail(errShort)
		return 0
	}
	return int(v)
}

// take returns the next n bytes, of which there may be zeros in a file that is
// too short.
func (d *decoding) take(n int) []byte {
	if n > len(d.data) {
		d.fail(errShort)
		return make([]byte, min(n, 16))
	}
	p := d.data[:n]
	d.data = d.data[n:]
	return p
}

func (d *decoding) byte() byte { return d.take(1)[0] }

// count reads a number of things that have happened.
func (d *decoding) count() int {
	v := d.uint()
	if v > math.MaxInt32 {
		d.fail(fmt.Errorf("no count: %d", v))
		return 0
	}
	return int(v)
}

func (d *decoding) text() string {
	return string(d.take(d.number(1)))
}

func (d *decoding) position() Position {
	var p Position
	text := d.take(d.number(1))
	if d.err != nil {
		return p
	}
	err := json.Unmarshal(text, &p)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		d.fail(fmt.Errorf("position: %w", err))
	}
	return p
}

func (d *decoding) prefix() netip.Prefix {
	var a netip.Addr
	switch family := d.byte(); family {
	case family4:
		a = netip.AddrFrom4([4]byte(d.take(4)))
	case family6:
		a = netip.AddrFrom16([16]byte(d.take(16)))
	default:
		d.fail(fmt.Errorf("no family of addresses: %d", family))
		return netip.Prefix{}
	}
	p := netip.PrefixFrom(a, int(d.byte()))
	if d.err == nil {
		if err := checkPrefix(p); err != nil {
			d.fail(err)
		}
	}
	return p
}
