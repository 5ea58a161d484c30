package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// placesFile is the name, in the state folder, of what tells where bans may be.
const placesFile = "places.json"

// A UsedPlace is where a daemon enforces bans, or has done so and has not cleared
// it yet.
type UsedPlace struct {
	Action Action

	// Targets are bans that are left there, if its programs can't list them.
	Targets []netip.Prefix `json:",omitempty"`
}

// SavePlaces keeps a list of places in a state folder, for a start at which some
// are not in the configuration any more. It does nothing if it is kept already.
func SavePlaces(dir string, places []UsedPlace) error {
	data, err := json.Marshal(places)
	if err == nil {
		err = keepCopy(filepath.Join(dir, placesFile), data)
	}
	if err != nil {
		return fmt.Errorf("keep a list of where bans are: %w", err)
	}
	return nil
}

// UsedPlaces are the places that a state folder tells of.
type UsedPlaces struct {
	Path   string // of the file
	Places []UsedPlace

	// Ours says that nobody else could have written the file, root aside: without
	// that no program is to be run because it is named there.
	Ours bool
}

// LoadPlaces reads the list that was kept last. There is none in a state folder
// where nothing has been enforced yet.
func LoadPlaces(dir string) (*UsedPlaces, error) {
	u := &UsedPlaces{Path: filepath.Join(dir, placesFile)}
	err := u.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u, nil
	case err != nil:
		return u, fmt.Errorf("read where bans were: %w", err)
	}
	return u, nil
}

func (u *UsedPlaces) read() error {
	f, err := os.Open(u.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		u.Ours = (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && info.Mode()&0o022 == 0
	}
	var places []UsedPlace
	if err := json.NewDecoder(f).Decode(&places); err != nil {
		return fmt.Errorf("%s: %w", u.Path, err)
	}
	for i := range places {
		if a := &places[i].Action; a.Type == TypeCommand && a.Command == nil {
			return fmt.Errorf("%s: action %s has no programs", u.Path, a.Name)
		}
	}
	u.Places = places
	return nil
}

// StateDir is where the state is of a daemon that runs by the configuration at
// path, as far as that can be told.
func StateDir(path string, env []string) string {
	if first := firstDir(env, "STATE_DIRECTORY"); first != "" {
		return first
	}
	return looseStateDir(path)
}

// SamePlace reports whether two actions have their bans in the same place, in the
// same way.
func (a *Action) SamePlace(b *Action) bool {
	if a.Type != b.Type || a.Place() != b.Place() {
		return false
	}
	return a.Type != TypeCommand || slices.Equal(a.Command.Unban, b.Command.Unban) && slices.Equal(a.Command.List, b.Command.List)
}
