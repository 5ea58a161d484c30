package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// record is a key and its value as stored.
type record struct {
	bucket     string
	key, value []byte
}

// image is all that a file holds.
type image struct {
	buckets map[string]*bucketImage
	damage  error // the first thing that was wrong with the structure, or nil
	format  uint32
	lost    int // elements and pages that could not be read
}

type bucketImage struct {
	records []record
	count   uint64 // how many there should be
}

// scan reads a bbolt file of the given size page by page. It goes on past
// damage and returns what it can reach; without damage, every page is used
// exactly once or free, all keys are in order, and bbolt can be trusted with
// the file.
func scan(f io.ReaderAt, size int64) *image {
	im := &image{buckets: map[string]*bucketImage{}}
	m, err := findMeta(f, size)
	if err != nil {
		im.damage = err
		return im
	}
	im.format = m.format
	if m.format != boltFormat {
		return im
	}
	s := &scanner{f: f, meta: m, pages: m.highWater, image: im}
	if have := uint64(size / m.pageSize); have < m.highWater {
		s.damaged(fmt.Errorf("file has %d pages of %d: it was cut short", have, m.highWater))
		s.pages = have
	}
	s.used = make([]bool, s.pages)
	s.free = make([]bool, s.pages)
	s.run()
	return im
}

// maxDepth is far beyond any tree that fits a disk: bbolt puts at least two
// keys on a page.
const maxDepth = 64

// scanner walks one file.
type scanner struct {
	f     io.ReaderAt
	meta  meta
	pages uint64 // pages there are
	used  []bool // seen on the walk
	free  []bool // on the freelist
	image *image
}

func (s *scanner) damaged(err error) {
	if s.image.damage == nil {
		s.image.damage = err
	}
}

func (s *scanner) lose(err error) {
	s.image.lost++
	s.damaged(err)
}

func (s *scanner) run() {
	s.readMetaHeads()
	s.readFreelist()
	s.walk(s.meta.root, bounds{}, 0, s.bucket)
	if s.image.damage != nil || s.meta.freelist == noFreelist {
		return
	}
	for id := range s.pages {
		if !s.used[id] && !s.free[id] {
			s.damaged(fmt.Errorf("page %d is neither used nor free", id))
			return
		}
	}
}

// readMetaHeads looks at the headers of the two meta pages. A crash while one
// is written can leave its body invalid, which is why there are two, but not
// its header, which is the same each time.
func (s *scanner) readMetaHeads() {
	for id := range min(2, s.pages) {
		s.used[id] = true
		p, err := s.head(id)
		if err == nil && p.flags != flagMeta {
			err = fmt.Errorf("page %d has flags %#x, not those of a meta page", id, p.flags)
		}
		if err != nil {
			s.damaged(err)
		}
	}
}

func (s *scanner) readFreelist() {
	if s.meta.freelist == noFreelist {
		return
	}
	p, err := s.load(s.meta.freelist)
	if err != nil {
		s.damaged(fmt.Errorf("freelist: %w", err))
		return
	}
	ids, err := p.freePages()
	if err != nil {
		s.damaged(fmt.Errorf("page %d: %w", p.id, err))
		return
	}
	for _, id := range ids {
		if id >= s.pages || s.used[id] || s.free[id] {
			s.damaged(fmt.Errorf("freelist names page %d, which can't be free", id))
			continue
		}
		s.free[id] = true
	}
}

// load reads a page with its overflow and marks all of it as used.
func (s *scanner) load(id uint64) (page, error) {
	if id < 2 || id >= s.pages {
		return page{}, fmt.Errorf("page %d is not in the file", id)
	}
	p, err := s.head(id)
	if err != nil {
		return page{}, err
	}
	if p.overflow >= s.pages-id {
		return page{}, fmt.Errorf("page %d and its overflow of %d end outside the file", id, p.overflow)
	}
	if err := s.claim(id, p.overflow+1); err != nil {
		return page{}, err
	}
	p.data = make([]byte, int64(p.overflow+1)*s.meta.pageSize)
	if _, err := s.f.ReadAt(p.data, int64(id)*s.meta.pageSize); err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}
	return p, nil
}

// head reads the header of a page.
func (s *scanner) head(id uint64) (page, error) {
	header := make([]byte, pageHeaderLen)
	if _, err := s.f.ReadAt(header, int64(id)*s.meta.pageSize); err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}
	p, err := parsePage(header)
	if err != nil {
		return page{}, fmt.Errorf("page %d: %w", id, err)
	}
	if p.id != id {
		return page{}, fmt.Errorf("page %d says that it is page %d", id, p.id)
	}
	return p, nil
}

// claim marks pages as used. A page that is used twice or on the freelist is
// not to be trusted: what stands there may be older than what was committed.
func (s *scanner) claim(id, n uint64) error {
	for i := id; i < id+n; i++ {
		if s.used[i] {
			return fmt.Errorf("page %d is used twice", i)
		}
		if s.free[i] {
			return fmt.Errorf("page %d is used and free", i)
		}
	}
	for i := id; i < id+n; i++ {
		s.used[i] = true
	}
	return nil
}

// bounds are the keys between which a page's keys must lie; nil is no bound.
type bounds struct {
	from []byte // included
	to   []byte // excluded
}

// walk visits the leaf elements of the tree under a page in order.
func (s *scanner) walk(id uint64, within bounds, depth int, visit func(element)) {
	if depth > maxDepth {
		s.lose(fmt.Errorf("page %d: tree is deeper than %d", id, maxDepth))
		return
	}
	p, err := s.load(id)
	if err != nil {
		s.lose(err)
		return
	}
	switch p.flags {
	case flagLeaf:
		if p.count == 0 && depth > 0 {
			s.lose(fmt.Errorf("page %d is an empty leaf", id))
		}
		s.elements(&p, within, func(e element, _ bounds) { visit(e) })
	case flagBranch:
		if p.count == 0 {
			s.lose(fmt.Errorf("page %d is an empty branch", id))
		}
		s.elements(&p, within, func(e element, below bounds) {
			s.walk(e.child, below, depth+1, visit)
		})
	default:
		s.lose(fmt.Errorf("page %d has flags %#x, not those of a leaf or branch", id, p.flags))
	}
}

// elements visits the readable entries of a page, each with the bounds for
// what is below it.
func (s *scanner) elements(p *page, within bounds, visit func(element, bounds)) {
	readable := s.readable(p)
	last := within.from
	for i, e := range readable {
		order := bytes.Compare(last, e.key)
		early := last != nil && (order > 0 || order == 0 && i > 0)
		late := within.to != nil && bytes.Compare(e.key, within.to) >= 0
		if early || late {
			s.damaged(fmt.Errorf("page %d: keys are out of order", p.id))
		}
		last = e.key
		below := bounds{from: e.key, to: within.to}
		if i+1 < len(readable) {
			below.to = readable[i+1].key
		}
		visit(e, below)
	}
}

// readable returns the entries of a page that can be read.
func (s *scanner) readable(p *page) []element {
	fit := min(p.count, (len(p.data)-pageHeaderLen)/elementLen)
	if fit < p.count {
		s.damaged(fmt.Errorf("page %d: says that it has %d entries, more than fit", p.id, p.count))
	}
	entries := make([]element, 0, fit)
	end := uint64(pageHeaderLen + p.count*elementLen)
	for i := range fit {
		e, next, err := p.element(i, end)
		end = next
		if err != nil {
			s.damaged(fmt.Errorf("page %d: entry %d of %d %w", p.id, i+1, p.count, err))
		}
		if errors.Is(err, errElement) {
			s.image.lost++
			continue
		}
		entries = append(entries, e)
	}
	return entries
}

// bucket reads one entry of the bucket of buckets.
func (s *scanner) bucket(e element) {
	if e.flags != elementIsBucket || len(e.value) < bucketLen {
		s.lose(fmt.Errorf("entry %q is not a bucket", e.key))
		return
	}
	name := string(e.key)
	b := &bucketImage{count: u64(e.value[8:])}
	s.image.buckets[name] = b
	add := func(e element) {
		if e.flags != 0 {
			s.lose(fmt.Errorf("bucket %s holds an entry with flags %#x", name, e.flags))
			return
		}
		b.records = append(b.records, record{bucket: name, key: e.key, value: e.value})
	}
	if root := u64(e.value); root != 0 {
		s.walk(root, bounds{}, 0, add)
		return
	}
	s.inline(name, e.value[bucketLen:], add)
}

// inline reads a bucket small enough to stand inside its entry.
func (s *scanner) inline(name string, data []byte, visit func(element)) {
	p, err := parsePage(data)
	if err == nil && (p.flags != flagLeaf || p.id != 0 || p.overflow != 0) {
		err = errors.New("has the header of another kind of page")
	}
	if err != nil {
		s.lose(fmt.Errorf("inline page of bucket %s: %w", name, err))
		return
	}
	s.elements(&p, bounds{}, func(e element, _ bounds) { visit(e) })
}
