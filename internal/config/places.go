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

// LoadPlaces reads the list that was kept last, and returns its path. There is
// none in a state folder where nothing has been enforced yet.
func LoadPlaces(dir string) (places []UsedPlace, path string, err error) {
	path = filepath.Join(dir, placesFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, path, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &places)
	}
	if err != nil {
		return nil, path, fmt.Errorf("read where bans were: %s: %w", path, err)
	}
	for i := range places {
		if a := &places[i].Action; a.Type == TypeCommand && a.Command == nil {
			return nil, path, fmt.Errorf("read where bans were: %s: action %s has no programs", path, a.Name)
		}
	}
	return places, path, nil
}

// SamePlace reports whether two actions have their bans in the same place, in the
// same way.
func (a *Action) SamePlace(b *Action) bool {
	if a.Type != b.Type || a.Place() != b.Place() {
		return false
	}
	return a.Type != TypeCommand || slices.Equal(a.Command.Unban, b.Command.Unban) && slices.Equal(a.Command.List, b.Command.List)
}
