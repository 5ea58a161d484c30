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
// it. The file keeps what it had until the ban is committed again, so that a
// clock that comes right later finds the true times.
type Loaded struct {
	Bans      []Ban // still running at now, by target
	Offences  []Offence
	Positions []Position

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
	loaded Loaded
	keep   []change // records to carry over into a new file
	stale  []change // removals of what is expired or unreadable
}

// examine reads a file of the given size without changing it. bad is nil if
// bbolt can go on with the file as it is, [ErrNewer], or what is damaged.
func examine(f io.ReaderAt, size int64, now time.Time) (c *contents, bad error) {
	im := scan(f, size)
	bad = im.checkVersion()
	if errors.Is(bad, ErrNewer) {
		return nil, bad
	}
	if im.damage != nil || bad == nil {
		bad = im.checkDamage()
	}
	c = im.contents(size, now)
	if bad != nil {
		c.loaded.Why = bad
	}
	return c, bad
}

// checkVersion returns nil for a file this version can read, [ErrNewer] for
// one it must not touch, and else what is wrong.
func (im *image) checkVersion() error {
	if im.format > boltFormat {
		return fmt.Errorf("%w: bbolt format %d, this one knows %d", ErrNewer, im.format, boltFormat)
	}
	b := im.buckets[bucketMeta]
	if b == nil {
		return errors.New("no schema version in it")
	}
	for _, r := range b.records {
		if string(r.key) != keyVersion {
			continue
		}
		payload, err := unseal(r.bucket, r.key, r.value)
		if err != nil {
			return fmt.Errorf("schema version: %w", err)
		}
		v, err := strconv.Atoi(string(payload))
		if err == nil && v > schemaVersion {
			return fmt.Errorf("%w: schema version %d, this one knows %d", ErrNewer, v, schemaVersion)
		}
		if err != nil || v != schemaVersion {
			return fmt.Errorf("schema version %q was never in use", payload)
		}
		return nil
	}
	return errors.New("no schema version in it")
}

// contents decodes all records. size is that of the file.
func (im *image) contents(size int64, now time.Time) *contents {
	c := &contents{}
	for _, name := range recordBuckets() {
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

// add takes a record into what was loaded; running is false for an expired
// ban.
func (c *contents) add(r record, now time.Time) (running bool, err error) {
	l := &c.loaded
	switch r.bucket {
	case bucketBans:
		b, err := decode(r, banKey)
		if err != nil {
			return false, err
		}
		b.limitTo(now)
		if !b.Until("").After(now) {
			return false, nil
		}
		l.Bans = append(l.Bans, b)
	case bucketOffences:
		o, err := decode(r, offenceKey)
		if err != nil {
			return false, err
		}
		l.Offences = append(l.Offences, o)
	case bucketPositions:
		p, err := decode(r, positionKey)
		if err != nil {
			return false, err
		}
		l.Positions = append(l.Positions, p)
	}
	return true, nil
}

// limitTo makes the time left of each owner at most its length.
func (b *Ban) limitTo(now time.Time) {
	for i := range b.Owners {
		o := &b.Owners[i]
		if o.Since.After(now) {
			o.Until = now.Add(o.Until.Sub(o.Since))
			o.Since = now
		}
	}
}

// checkDamage returns what makes the file as a whole unfit for use.
func (im *image) checkDamage() error {
	if im.damage != nil {
		return im.damage
	}
	for _, name := range recordBuckets() {
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
