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

	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/wholefile"
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

// placesVersion is the version of the list. One that is newer may name what this
// program would take for something else.
const placesVersion = 1

// placesList is what the file holds.
type placesList struct {
	Version int
	Places  []UsedPlace
}

// SavePlaces keeps a list of places in a state folder, for a start at which some
// are not in the configuration any more. It does nothing if it is kept already.
func SavePlaces(dir string, places []UsedPlace) error {
	data, err := json.Marshal(placesList{placesVersion, places})
	if err == nil {
		err = keepCopy(filepath.Join(dir, placesFile), data)
	}
	if err != nil {
		return fmt.Errorf("keep a list of where bans are: %w", err)
	}
	return nil
}

// A list is read that is so large, of so many places: a daemon has a place for each
// action, and remembers few others. Who takes bans out of them starts programs for each.
const (
	maxBytes  = 16 << 20
	maxPlaces = 1000
)

// UsedPlaces are the places that a state folder tells of.
type UsedPlaces struct {
	Path   string // of the file
	Places []UsedPlace
	Bad    []error // why others are left aside that are in the file

	// Foreign is why no program is to be run because it is named in the file:
	// somebody else than root and who runs this could have written it. Root trusts
	// root alone, so that the daemon's user can't have it run anything. nil: nobody
	// could.
	Foreign error
}

// LoadPlaces reads the list that was kept last. There is none in a state folder
// where nothing has been enforced yet.
func LoadPlaces(dir string) (*UsedPlaces, error) {
	u := &UsedPlaces{Path: filepath.Join(dir, placesFile)}
	// Before it is opened: whoever could change the way there later could do so now.
	u.Foreign = access.Changeable(u.Path, uint32(os.Geteuid()))
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
	data, err := wholefile.Read(u.Path, maxBytes)
	if err != nil {
		return err
	}
	var list placesList
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s: %w", u.Path, err)
	}
	if list.Version != placesVersion {
		return fmt.Errorf("%s is of version %d, and this is tailban for version %d", u.Path, list.Version, placesVersion)
	}
	if n := len(list.Places); n > maxPlaces {
		u.Bad = append(u.Bad, fmt.Errorf("%s: only %d of %d places are looked at", u.Path, maxPlaces, n))
		list.Places = list.Places[:maxPlaces]
	}
	for i := range list.Places {
		if err := list.Places[i].problem(); err != nil {
			u.Bad = append(u.Bad, fmt.Errorf("%s: place %d: %w", u.Path, i+1, err))
			continue
		}
		u.Places = append(u.Places, list.Places[i])
	}
	return nil
}

// SetAside gives the file another name, in the place of one that was set aside
// before: the next list that is saved would replace what could not be used.
func (u *UsedPlaces) SetAside() (path string, err error) {
	path = u.Path + ".aside"
	return path, os.Rename(u.Path, path)
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
