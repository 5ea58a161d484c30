package state

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// newSuffix names the file in which a replacement is prepared. Only the
// holder of the lock on the current file touches it.
const newSuffix = ".new"

// createFile builds a complete file next to path, locked and synced: a crash
// on the way leaves what path names as it was. The caller moves it to path.
func createFile(path string, records []change) (*Store, error) {
	name := path + newSuffix
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove what a crash left: %w", err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, explainOpen(name, err)
	}
	giveToOwner(f, filepath.Dir(path))
	s, err := newStore(path, f)
	if err != nil {
		return nil, err
	}
	s.bare = true
	if err := s.apply(records); err != nil {
		s.Close()
		os.Remove(name)
		return nil, fmt.Errorf("write new state file: %w", err)
	}
	return s, nil
}

// moveIn puts the new file in the place of path.
func moveIn(path string) error {
	if err := os.Rename(path+newSuffix, path); err != nil {
		return fmt.Errorf("move new state file into place: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

const (
	asideInfix = ".damaged-"
	asideTime  = "20060102T150405Z"
	keepAside  = 3
)

// putAside gives the file at path a second name that says it is damaged, so
// that moveIn can take the first one away from it: at no time is there no
// file at path.
func putAside(path string, now time.Time) (string, error) {
	aside, err := freeName(path + asideInfix + now.UTC().Format(asideTime))
	if err != nil {
		return "", err
	}
	if err := os.Link(path, aside); err != nil {
		// A file system without hard links.
		if err := os.Rename(path, aside); err != nil {
			return "", fmt.Errorf("put damaged state file aside: %w", err)
		}
	}
	return aside, nil
}

// freeName returns name, or name with a number if it is taken.
func freeName(name string) (string, error) {
	free := name
	for i := 2; ; i++ {
		_, err := os.Lstat(free)
		if os.IsNotExist(err) {
			return free, nil
		}
		if err != nil {
			return "", fmt.Errorf("put damaged state file aside: %w", err)
		}
		free = fmt.Sprintf("%s-%d", name, i)
	}
}

// pruneAside removes the oldest damaged files beyond keepAside, so that
// restart after restart can't fill the disk. The latest stays even if the
// clock says that it is the oldest.
func pruneAside(path, latest string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("look for damaged state files: %w", err)
	}
	var others []string
	for _, e := range entries {
		name := e.Name()
		if e.Type()&fs.ModeType == 0 && strings.HasPrefix(name, filepath.Base(path)+asideInfix) && name != filepath.Base(latest) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	for len(others) > keepAside-1 {
		if err := os.Remove(filepath.Join(filepath.Dir(path), others[0])); err != nil {
			return fmt.Errorf("remove old damaged state file: %w", err)
		}
		others = others[1:]
	}
	return nil
}
