package state

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Loaded is what a file held when it was opened.
//
// A ban whose time left exceeds its length was decided in a future that a
// clock stepped back from: its owner's Since is moved to now and Until with
// it. Pardons, allowances and holds are handled alike. The file keeps what it had
// until the ban is committed again, and Stored what its Until was, so that a clock
// that comes right later finds the true times.
type Loaded struct {
	Bans      []Ban // still running at now, by target
	Offences  []Offence
	Positions []Position

	Pardons    []Pardon    // to be kept at now
	Allowances []Allowance // still running at now
	Holds      []Hold      // likewise

	Notes []Note // by number

	// Damaged is "", or where the damaged file was put aside. What could be
	// read of it is in this value and in the new file. Positions may then be
	// ahead of bans that are lost.
	Damaged string

	// Why is what was wrong with the file, or with the first record lost;
	// nil if nothing was.
	Why error

	// Lost is how many records could not be read. After damage it is a lower
	// bound: what stood on an unreadable page is not always known.
	Lost int
}

// contents is an image, understood.
type contents struct {
	loaded  Loaded
	version int      // of the schema; 0: not known
	keep    []change // records to carry over into a new file
	stale   []change // removals of what is expired or unreadable
}

// examine reads a file of the given size without changing it. bad is nil if
// bbolt can go on with the file as it is, [ErrNewer], or what is damaged.
func examine(f io.ReaderAt, size int64, now time.Time) (c *contents, bad error) {
	im := scan(f, size)
	version, bad := im.version()
	if errors.Is(bad, ErrNewer) {
		return nil, bad
	}
	if im.damage != nil || bad == nil {
		bad = im.checkDamage(version)
	}
	c = im.contents(size, now)
	c.version = version
	if bad != nil {
		c.loaded.Why = bad
	}
	return c, bad
}

// version returns the schema version of a file that can be read, [ErrNewer]
// for one that must not be touched, and else what is wrong.
func (im *image) version() (int, error) {
	if im.format > boltFormat {
		return 0, fmt.Errorf("%w: bbolt format %d, this one knows %d", ErrNewer, im.format, boltFormat)
	}
	b := im.buckets[bucketMeta]
	if b == nil {
		return 0, errors.New("no schema version in it")
	}
	for _, r := range b.records {
		if string(r.key) != keyVersion {
			continue
		}
		payload, err := unseal(r.bucket, r.key, r.value)
		if err != nil {
			return 0, fmt.Errorf("schema version: %w", err)
		}
		v, err := strconv.Atoi(string(payload))
		if err == nil && v > schemaVersion {
			return 0, fmt.Errorf("%w: schema version %d, this one knows %d", ErrNewer, v, schemaVersion)
		}
		if err != nil || v < 1 {
			return 0, fmt.Errorf("schema version %q was never in use", payload)
		}
		return v, nil
	}
	return 0, errors.New("no schema version in it")
}

// contents decodes all records. size is that of the file.
func (im *image) contents(size int64, now time.Time) *contents {
	c := &contents{}
	for _, name := range recordBuckets(schemaVersion) {
		if b := im.buckets[name]; b != nil {
			c.loaded.Lost += c.addBucket(b, size, now)
		}
	}
	if c.loaded.Lost == 0 {
		c.loaded.Lost = im.lost
	}
	return c
}

// addBucket takes what a bucket holds and returns how many records are lost.
func (c *contents) addBucket(b *bucketImage, size int64, now time.Time) (lost int) {
	seen := make(map[string]bool, len(b.records))
	for _, r := range b.records {
		if seen[string(r.key)] {
			continue // only in a damaged file
		}
		running, err := c.add(r, now)
		if err != nil {
			lost++
			if c.loaded.Why == nil {
				c.loaded.Why = fmt.Errorf("%s: record %x: %w", r.bucket, r.key, err)
			}
		} else {
			seen[string(r.key)] = true
		}
		if err == nil && running {
			c.keep = append(c.keep, change(r))
		} else {
			c.stale = append(c.stale, change{bucket: r.bucket, key: r.key})
		}
	}
	if b.plausible(size) {
		return max(0, int(b.count)-len(seen))
	}
	return lost
}

// add takes a record into what was loaded; running is false for what has
// expired.
func (c *contents) add(r record, now time.Time) (running bool, err error) {
	l := &c.loaded
	switch r.bucket {
	case bucketBans:
		return addRunning(&l.Bans, r, banKey, now)
	case bucketOffences:
		return addDecoded(&l.Offences, r, offenceKey)
	case bucketPositions:
		return addDecoded(&l.Positions, r, positionKey)
	case bucketPardons:
		return addRunning(&l.Pardons, r, pardonKey, now)
	case bucketAllowances:
		return addRunning(&l.Allowances, r, allowanceKey, now)
	case bucketHolds:
		return addRunning(&l.Holds, r, holdKey, now)
	case bucketNotes:
		return addDecoded(&l.Notes, r, noteKey)
	}
	return true, nil
}

func addDecoded[T any, P checked[T]](to *[]T, r record, keyOf func(P) []byte) (running bool, err error) {
	v, err := decode(r, keyOf)
	if err != nil {
		return false, err
	}
	*to = append(*to, v)
	return true, nil
}

// addRunning is addDecoded for what ends.
func addRunning[T any, P ending[T]](to *[]T, r record, keyOf func(P) []byte, now time.Time) (running bool, err error) {
	v, err := decode(r, keyOf)
	if err != nil {
		return false, err
	}
	P(&v).limitTo(now)
	if !P(&v).runs(now) {
		return false, nil
	}
	*to = append(*to, v)
	return true, nil
}

// checkDamage returns what makes the file as a whole unfit for use.
func (im *image) checkDamage(version int) error {
	if im.damage != nil {
		return im.damage
	}
	for _, name := range recordBuckets(version) {
		b := im.buckets[name]
		if b == nil {
			return fmt.Errorf("bucket %s is missing", name)
		}
		if err := b.checkCount(name); err != nil {
			return err
		}
	}
	return nil
}

func (b *bucketImage) checkCount(name string) error {
	if uint64(len(b.records)) == b.count {
		return nil
	}
	return fmt.Errorf("bucket %s holds %d records, should hold %d", name, len(b.records), b.count)
}

// plausible reports whether so many records fit into a file of that size. A
// count that is not is itself damaged and says nothing.
func (b *bucketImage) plausible(size int64) bool {
	return b.count <= uint64(size)/(elementLen+sumLen)
}
