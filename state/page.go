package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The file is read here without bbolt, which takes what it finds on a page
// for granted: on a damaged file it panics, and its own Check does so, or
// takes a SIGBUS, in a goroutine of its own where nobody can recover it.
//
// The layout is that of bbolt file format 2 (go.etcd.io/bbolt,
// internal/common: meta.go, page.go, inode.go, bucket.go). Numbers are in the
// byte order of the machine.
//
//	page     id u64 | flags u16 | count u16 | overflow u32 | body
//	         a page and its overflow are 1+overflow times the page size
//	meta     magic u32 | format u32 | page size u32 | flags u32 |
//	         root u64 | sequence u64 | freelist u64 | high water u64 |
//	         transaction u64 | FNV-1a of what is before it u64
//	branch   count × (position u32 | key length u32 | page u64), then keys
//	leaf     count × (flags u32 | position u32 | key length u32 | value length u32),
//	         then keys and values; positions count from their own element
//	bucket   value of a leaf element with flag 1: root u64 | sequence u64,
//	         and if root is 0, the bucket's only leaf page
//	freelist count × page u64; if count is 0xffff the first u64 is the count
const (
	boltMagic  = 0xED0CDAED
	boltFormat = 2

	pageHeaderLen = 16
	elementLen    = 16
	metaLen       = 64
	bucketLen     = 16

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10

	elementIsBucket = 0x01

	noFreelist = ^uint64(0)

	minPageSize = 1 << 10
	maxPageSize = 1 << 24
)

var errNoMeta = errors.New("neither of its two meta pages is valid")

// meta is one of the two places where bbolt notes its latest transaction.
type meta struct {
	format    uint32
	pageSize  int64
	root      uint64 // page of the bucket of buckets
	freelist  uint64
	highWater uint64 // first page never used
	txid      uint64
}

// findMeta returns the meta page that bbolt would use: the later of the two
// if it is valid, else the other. Its format may be one we don't know.
func findMeta(f io.ReaderAt, size int64) (meta, error) {
	first, err := readMeta(f, 0)
	if err == nil {
		second, err := readMeta(f, first.pageSize)
		if err == nil && second.txid > first.txid {
			return second, nil
		}
		return first, nil
	}
	// Where the second one stands depends on the page size, which only it
	// could tell.
	for at := int64(minPageSize); at <= maxPageSize && at < size; at <<= 1 {
		if m, err := readMeta(f, at); err == nil && m.pageSize == at {
			return m, nil
		}
	}
	return meta{}, errNoMeta
}

func readMeta(f io.ReaderAt, at int64) (meta, error) {
	var buf [pageHeaderLen + metaLen]byte
	if _, err := f.ReadAt(buf[:], at); err != nil {
		return meta{}, err
	}
	b := buf[pageHeaderLen:]
	sum := fnv.New64a()
	sum.Write(b[:metaLen-8])
	m := meta{
		format:    u32(b[4:]),
		pageSize:  int64(u32(b[8:])),
		root:      u64(b[16:]),
		freelist:  u64(b[32:]),
		highWater: u64(b[40:]),
		txid:      u64(b[48:]),
	}
	switch {
	case u32(b) != boltMagic:
		return meta{}, errors.New("no bbolt magic")
	case sum.Sum64() != u64(b[56:]):
		return meta{}, errors.New("wrong meta checksum")
	case m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0:
		return meta{}, fmt.Errorf("page size of %d bytes", m.pageSize)
	}
	return m, nil
}

// page is a page with its overflow.
type page struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
	data     []byte // header included
}

func parsePage(data []byte) (page, error) {
	if len(data) < pageHeaderLen {
		return page{}, fmt.Errorf("has %d bytes, fewer than its header", len(data))
	}
	return page{
		id:       u64(data),
		flags:    binary.NativeEndian.Uint16(data[8:]),
		count:    int(binary.NativeEndian.Uint16(data[10:])),
		overflow: uint64(u32(data[12:])),
		data:     data,
	}, nil
}

// element is an entry of a leaf or a branch page.
type element struct {
	flags uint32 // leaf
	child uint64 // branch
	key   []byte
	value []byte // leaf
}

var (
	errElement = errors.New("lies outside")
	errLayout  = errors.New("does not follow the one before it")
)

// element returns the i-th entry. With errElement there is none. With
// errLayout it can be read, but the page is damaged: bbolt writes the data of
// one entry right behind that of the one before, which ended at end, so that
// a position or length that lost a bit doesn't fit in. next is where the data
// of this one ends.
func (p *page) element(i int, end uint64) (e element, next uint64, err error) {
	at := pageHeaderLen + i*elementLen
	if at+elementLen > len(p.data) {
		return e, end, errElement
	}
	b := p.data[at : at+elementLen]
	var pos, klen, vlen uint64
	if p.flags == flagLeaf {
		e.flags = u32(b)
		pos, klen, vlen = uint64(u32(b[4:])), uint64(u32(b[8:])), uint64(u32(b[12:]))
	} else {
		pos, klen = uint64(u32(b)), uint64(u32(b[4:]))
		e.child = u64(b[8:])
	}
	start := uint64(at) + pos
	stop := start + klen + vlen
	if stop > uint64(len(p.data)) || klen == 0 {
		return e, stop, errElement
	}
	e.key = p.data[start : start+klen]
	e.value = p.data[start+klen : stop]
	if start != end {
		return e, stop, errLayout
	}
	return e, stop, nil
}

// freePages returns the pages a freelist page holds.
func (p *page) freePages() ([]uint64, error) {
	if p.flags != flagFreelist {
		return nil, fmt.Errorf("has flags %#x, not those of a freelist", p.flags)
	}
	count, b := uint64(p.count), p.data[pageHeaderLen:]
	if count == 0xffff && len(b) >= 8 {
		count, b = u64(b), b[8:]
	}
	if count > uint64(len(b)/8) {
		return nil, fmt.Errorf("freelist of %d pages lies outside", count)
	}
	ids := make([]uint64, count)
	for i := range ids {
		ids[i] = u64(b[i*8:])
	}
	return ids, nil
}

func u32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
