package state

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestExpiredBansAreLeftOutAndRemoved(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	mustCommit(t, s, Update{Bans: testBans(3)})
	long := testBan(1)
	long.Owners = append(long.Owners, long.Owners[0])
	long.Owners[1].Jail, long.Owners[1].Until = "web", noon.Add(9*time.Hour)
	mustCommit(t, s, Update{Bans: []Ban{long}})
	mustClose(t, s)

	end := testBan(0).Owners[0].Until
	s, l := mustOpen(t, path, end.Add(-1))
	sound(t, l)
	if len(l.Bans) != 3 {
		t.Errorf("just before their end: %d bans, want 3", len(l.Bans))
	}
	mustClose(t, s)

	s, l = mustOpen(t, path, end)
	sound(t, l)
	if want := []Ban{long}; !reflect.DeepEqual(l.Bans, want) {
		t.Errorf("at their end: bans are %+v, want %+v", l.Bans, want)
	}
	// A ban put for an expired target must survive the removal of the old one.
	renewed := testBan(2)
	renewed.Owners[0].Until = end.Add(time.Hour)
	mustCommit(t, s, Update{Bans: []Ban{renewed}})
	mustCommit(t, s, Update{Positions: []Position{testPosition(1)}}) // nor may a later commit remove it
	mustClose(t, s)

	_, l = mustOpen(t, path, noon) // the clock goes back: only what is still in the file can show
	sound(t, l)
	if got, want := banTargets(l.Bans), banTargets([]Ban{long, renewed}); !slices.Equal(got, want) {
		t.Errorf("file holds %v, want %v", got, want)
	}
}

func TestClockSteppedBack(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	mustCommit(t, s, Update{Bans: []Ban{testBan(1)}})
	mustClose(t, s)

	boot := time.Unix(60, 0).UTC()
	length := testBan(1).Owners[0].Until.Sub(testBan(1).Owners[0].Since)
	s, l := mustOpen(t, path, boot)
	sound(t, l)
	if got := l.Bans[0].Until("").Sub(boot); got != length {
		t.Errorf("time left is %v, want the ban's length %v", got, length)
	}
	mustCommit(t, s, Update{Positions: []Position{testPosition(1)}})
	mustClose(t, s)
	_, l = mustOpen(t, path, noon)
	if want := []Ban{testBan(1)}; !reflect.DeepEqual(l.Bans, want) {
		t.Errorf("once the clock is right bans are %+v, want %+v", l.Bans, want)
	}
}

func TestLocked(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	if _, _, err := Open(path, noon); !errors.Is(err, ErrLocked) {
		t.Fatalf("second Open: %v, want ErrLocked", err)
	}
	mustCommit(t, s, Update{Bans: []Ban{testBan(1)}}) // the first is unharmed
	mustClose(t, s)
	_, l := mustOpen(t, path, noon)
	sound(t, l)
	if len(l.Bans) != 1 {
		t.Errorf("%d bans, want 1", len(l.Bans))
	}
}

func TestLockIsOnTheFileThePathNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if ok, err := lockCurrent(f, path); ok || err != nil {
		t.Errorf("nothing at path: lockCurrent = %v, %v; want false", ok, err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := lockCurrent(f, path); ok || err != nil {
		t.Errorf("another file at path: lockCurrent = %v, %v; want false", ok, err)
	}
}

func TestNewerVersionIsLeftAlone(t *testing.T) {
	path := statePath(t)
	s, _ := mustOpen(t, path, noon)
	mustCommit(t, s, Update{Bans: testBans(3)})
	key := []byte(keyVersion)
	if err := s.apply([]change{{bucketMeta, key, seal(bucketMeta, key, []byte(strconv.Itoa(schemaVersion+1)))}}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path, noon); !errors.Is(err, ErrNewer) {
		t.Errorf("Open: %v, want ErrNewer", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before, after) {
		t.Error("the file was changed")
	}
	m, err := findMeta(bytes.NewReader(before), int64(len(before)))
	if err != nil {
		t.Fatal(err)
	}
	clear(before[int64(m.freelist)*m.pageSize:][:pageHeaderLen]) // damaged as well
	if err := os.WriteFile(path, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path, noon); !errors.Is(err, ErrNewer) {
		t.Errorf("Open of a damaged one: %v, want ErrNewer", err)
	}
	if names := dirNames(t, filepath.Dir(path)); !slices.Equal(names, []string{"state.db"}) {
		t.Errorf("folder holds %v, want only the file", names)
	}
}

func TestUnreadableRecordIsSkippedAndCounted(t *testing.T) {
	put := func(c change) func(*Store) error {
		return func(s *Store) error { return s.apply([]change{c}) }
	}
	k1, k9 := appendPrefix(nil, testBan(1).Target), appendPrefix(nil, testBan(9).Target)
	sealed := func(bucket string, key []byte, json string) change {
		return change{bucket, key, seal(bucket, key, []byte(json))}
	}
	tests := []struct {
		name  string
		spoil change
		bans  int
	}{
		{"not JSON", sealed(bucketBans, k9, "{"), 3},
		{"no owners", sealed(bucketBans, k9, `{"target":"198.51.0.9/32","owners":[]}`), 3},
		{"invalid address", sealed(bucketBans, k9, `{"target":"198.51.0.900/32","owners":[{"jail":"web"}]}`), 3},
		{"under another's key", sealed(bucketBans, k9, `{"target":"198.51.0.8/32","owners":[{"jail":"web"}]}`), 3},
		{"wrong checksum", change{bucketBans, k1, []byte("0000{}")}, 2},
		{"too short for a checksum", change{bucketBans, k1, []byte("00")}, 2},
		{"offence", sealed(bucketOffences, []byte("web"), `{}`), 3},
		{"position", sealed(bucketPositions, []byte("web"), `[]`), 3},
		{"pardon", sealed(bucketPardons, []byte("web"), `{}`), 3},
		{"allowance without end", sealed(bucketAllowances, k9, `{"target":"198.51.0.9/32"}`), 3},
		{"note of another", sealed(bucketNotes, k9, `{"n":9,"what":"full"}`), 3},
		{"hold of another", sealed(bucketHolds, []byte("web"), `{"jail":"sign-in"}`), 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := statePath(t)
			s, _ := mustOpen(t, path, noon)
			mustCommit(t, s, Update{Bans: testBans(3)})
			if err := put(tt.spoil)(s); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)

			s, l := mustOpen(t, path, noon)
			if l.Damaged != "" || l.Lost != 1 || l.Why == nil {
				t.Errorf("damaged %q, lost %d, why %v; want an undamaged file, 1 lost and a reason", l.Damaged, l.Lost, l.Why)
			}
			if len(l.Bans) != tt.bans {
				t.Errorf("%d bans, want %d", len(l.Bans), tt.bans)
			}
			mustCommit(t, s, Update{Positions: []Position{testPosition(1)}})
			mustClose(t, s)
			_, l = mustOpen(t, path, noon)
			sound(t, l) // it is reported until the next commit, then gone
		})
	}
}

func TestModesAndFolders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "state.db")
	s, _ := mustOpen(t, path, noon)
	mustClose(t, s)
	for name, want := range map[string]fs.FileMode{
		path:                             0o600,
		filepath.Dir(path):               0o700 | fs.ModeDir,
		filepath.Dir(filepath.Dir(path)): 0o700 | fs.ModeDir,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), want)
		}
	}
	if names := dirNames(t, filepath.Dir(path)); !slices.Equal(names, []string{"state.db"}) {
		t.Errorf("folder holds %v, want only the file", names)
	}
}

func TestOddThingsInItsPlace(t *testing.T) {
	tests := []struct {
		name  string
		place func(path string) error
		want  string // in the error; empty if the store opens
	}{
		{"empty file", func(p string) error { return os.WriteFile(p, nil, 0o600) }, ""},
		{"left by a crash while creating", func(p string) error { return os.WriteFile(p+newSuffix, []byte("half"), 0o600) }, ""},
		{"folder", func(p string) error { return os.Mkdir(p, 0o700) }, "move the folder away"},
		{"symbolic link", func(p string) error { return os.Symlink("elsewhere", p) }, "symbolic link"},
		{"pipe", func(p string) error { return syscall.Mkfifo(p, 0o600) }, "not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			if err := tt.place(path); err != nil {
				t.Fatal(err)
			}
			s, l, err := Open(path, noon)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
					t.Fatalf("Open: %v, want an error with the path and %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			sound(t, l)
			mustCommit(t, s, Update{Bans: []Ban{testBan(1)}})
			mustClose(t, s)
		})
	}
}

func dirNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
