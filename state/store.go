package state

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

var (
	// ErrLocked means that another process holds the state file.
	ErrLocked = errors.New("locked by another process; is another tailban running with this state_dir?")

	// ErrNewer means that a newer tailban wrote the state file, which is left
	// as it is.
	ErrNewer = errors.New("written by a newer tailban; install that version again or use another state_dir")

	// ErrClosed means that the store was closed before.
	ErrClosed = errors.New("state file is closed")
)

// Store is the durable state: one bbolt file, one process at a time. Its
// methods are safe for concurrent use.
type Store struct {
	path string
	file *os.File // owned by db, which closes it

	mu     sync.Mutex
	db     *bolt.DB
	bare   bool     // buckets and version are to be made with the next commit
	stale  []change // removed with the next commit
	closed bool
	broken error // set when bbolt panicked and can't be used any more
}

// Open opens the state file at path and returns what it holds, creating it
// (mode 0600) and its folder (mode 0700) when missing. An empty file counts
// as missing. What has ended by now (bans, pardons, allowances, holds) is left
// out.
//
// A damaged file is put aside as path.damaged-TIME, of which the latest three
// are kept, and replaced by a new one with all records that could be read;
// Loaded says so. A record that can't be read in a file that is otherwise
// sound is skipped and counted; it leaves the file with the next Commit.
// A file of an earlier version is taken as it is; the first Commit makes it
// one of this version.
//
// Errors: [ErrLocked] after a second, [ErrNewer], or those of the file
// system.
func Open(path string, now time.Time) (*Store, *Loaded, error) {
	s, loaded, err := open(path, now)
	if err != nil {
		return nil, nil, fmt.Errorf("open state file %s: %w", path, err)
	}
	return s, loaded, nil
}

func open(path string, now time.Time) (*Store, *Loaded, error) {
	f, err := openLocked(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	if info.Size() == 0 {
		defer f.Close() // its lock must last until the new file is in place
		s, err := replace(path, nil)
		return s, &Loaded{}, err
	}

	c, bad := examine(f, info.Size(), now)
	if errors.Is(bad, ErrNewer) {
		f.Close()
		return nil, nil, bad
	}
	if bad == nil {
		s, err := newStore(path, f)
		if err != nil {
			return nil, nil, err
		}
		s.bare = c.version < schemaVersion
		s.stale = c.stale
		return s, &c.loaded, nil
	}

	defer f.Close()
	s, err := replaceDamaged(path, c, now)
	return s, &c.loaded, err
}

// replace puts a new file with the given records at path.
func replace(path string, records []change) (*Store, error) {
	s, err := createFile(path, records)
	if err != nil {
		return nil, err
	}
	if err := moveIn(path); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// replaceDamaged is replace for a file worth keeping aside.
func replaceDamaged(path string, c *contents, now time.Time) (*Store, error) {
	s, err := createFile(path, c.keep)
	if err != nil {
		return nil, err
	}
	c.loaded.Damaged, err = putAside(path, now)
	if err == nil {
		err = moveIn(path)
	}
	if err == nil {
		err = pruneAside(path, c.loaded.Damaged)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// newStore hands a locked or private file to bbolt, which shares the lock.
// It closes the file if it fails.
func newStore(path string, f *os.File) (*Store, error) {
	s := &Store{path: path, file: f}
	err := s.guard(func() (err error) {
		s.db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout:      lockTimeout,
			FreelistType: bolt.FreelistMapType,
			NoStatistics: true,
			OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return f, nil },
		})
		return err
	})
	if err != nil {
		f.Close() // again, unless bbolt panicked
		return nil, err
	}
	return s, nil
}

// createBuckets makes what a new file, or one of an earlier version, lacks.
func createBuckets(tx *bolt.Tx) error {
	for _, name := range recordBuckets(schemaVersion) {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return err
		}
	}
	b, err := tx.CreateBucketIfNotExists([]byte(bucketMeta))
	if err != nil {
		return err
	}
	key := []byte(keyVersion)
	return b.Put(key, seal(bucketMeta, key, []byte(strconv.Itoa(schemaVersion))))
}

// Commit makes all of the update durable, or none of it if it returns an
// error: one transaction, synced to the disk when it returns nil. It takes as
// long as the disk does. After most errors (a full disk, say) it can be
// called again with the same update; a panic inside bbolt, as from a file cut
// short underneath, ends the use of the store.
func (s *Store) Commit(u Update) error {
	changes, err := u.changes()
	if err != nil {
		return fmt.Errorf("commit to %s: %w", s.path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("commit to %s: %w", s.path, ErrClosed)
	}
	if len(changes) == 0 {
		return nil
	}
	if err := s.apply(append(s.stale[:len(s.stale):len(s.stale)], changes...)); err != nil {
		return fmt.Errorf("commit to %s: %w", s.path, err)
	}
	s.stale = nil
	return nil
}

// apply writes changes in one transaction, with what the file lacks to hold
// them.
func (s *Store) apply(changes []change) error {
	if s.broken != nil {
		return s.broken
	}
	err := s.guard(func() error {
		return s.db.Update(func(tx *bolt.Tx) error {
			if s.bare {
				if err := createBuckets(tx); err != nil {
					return err
				}
			}
			counts := map[string]int{}
			for _, c := range changes {
				n, err := c.apply(tx.Bucket([]byte(c.bucket)))
				if err != nil {
					return fmt.Errorf("%s: %w", c.bucket, err)
				}
				counts[c.bucket] += n
			}
			return addCounts(tx, counts)
		})
	})
	s.bare = s.bare && err != nil
	return err
}

// apply returns by how much the number of records grew.
func (c *change) apply(b *bolt.Bucket) (int, error) {
	had := b.Get(c.key) != nil
	switch {
	case c.value != nil && had:
		return 0, b.Put(c.key, c.value)
	case c.value != nil:
		return 1, b.Put(c.key, c.value)
	case had:
		return -1, b.Delete(c.key)
	default:
		return 0, nil
	}
}

// addCounts keeps each bucket's sequence number equal to its number of
// records.
func addCounts(tx *bolt.Tx, counts map[string]int) error {
	for name, n := range counts {
		b := tx.Bucket([]byte(name))
		if n == 0 {
			continue
		}
		if err := b.SetSequence(uint64(int64(b.Sequence()) + int64(n))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// guard turns a panic of bbolt, or a fault in the memory it maps the file to,
// into an error. The store is broken after that: bbolt may still hold its
// own locks.
func (s *Store) guard(use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			s.broken = fmt.Errorf("database failed (%v); restart tailban to have the file checked and repaired", r)
			err = s.broken
		}
	}()
	return use()
}

// Close lets go of the file. It waits for a Commit under way. Closing again
// is success.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.release(); err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}

// release gives up the file and its lock. With a broken bbolt the mapping
// stays, and would keep the lock with it if that were not given up by name.
func (s *Store) release() error {
	if s.broken == nil {
		return s.db.Close()
	}
	return errors.Join(unlock(s.file), s.file.Close())
}
