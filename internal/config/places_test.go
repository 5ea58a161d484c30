package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// usedPrograms is a list with one action that has programs.
const usedPrograms = `{"Version":1,"Places":[{"Action":{"Name":"x","Type":"command","Command":{"Ban":["/bin/true"],"Unban":["/bin/true"],"Batch":1,"Timeout":10000000000,"Concurrency":4}}}]}`

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Programs are run for a list alone that nobody else can have written, or put
// there.
func TestPlacesOfSomebodyElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to have files of others")
	}
	for name, x := range map[string]struct {
		change func(dir, file string) error
		ours   bool
	}{
		"our own":                  {func(dir, file string) error { return nil }, true},
		"folder of another user":   {func(dir, _ string) error { return os.Chown(dir, 65534, 65534) }, false},
		"file of another user":     {func(_, file string) error { return os.Chown(file, 65534, 65534) }, false},
		"folder others may change": {func(dir, _ string) error { return os.Chmod(dir, 0o777) }, false},
		"file others may change":   {func(_, file string) error { return os.Chmod(file, 0o666) }, false},
		"way there of another user": {func(dir, _ string) error {
			return os.Chown(filepath.Dir(dir), 65534, 65534)
		}, false},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		file := filepath.Join(dir, placesFile)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, file, usedPrograms)
		if err := x.change(dir, file); err != nil {
			t.Fatal(err)
		}
		u, err := LoadPlaces(dir)
		if err != nil || len(u.Places) != 1 {
			t.Errorf("%s: %d places, %v", name, len(u.Places), err)
		}
		if (u.Foreign == nil) != x.ours {
			t.Errorf("%s: foreign: %v", name, u.Foreign)
		}
	}
}

// However long the list is: programs are started for each place.
func TestTooManyPlaces(t *testing.T) {
	dir := t.TempDir()
	place := UsedPlace{Action: Action{Name: "a", Type: "nftables", Table: "tailban"}}
	if err := SavePlaces(dir, slices.Repeat([]UsedPlace{place}, maxPlaces+3)); err != nil {
		t.Fatal(err)
	}
	u, err := LoadPlaces(dir)
	if err != nil || len(u.Places) != maxPlaces || len(u.Bad) != 1 || !strings.Contains(u.Bad[0].Error(), "only 1000 of 1003 places") {
		t.Errorf("%d places, %d bad, %v", len(u.Places), len(u.Bad), err)
	}
}

// What is no file of a daemon's is not read, and not waited for.
func TestPlacesThatAreNoList(t *testing.T) {
	for name, x := range map[string]struct {
		make func(file string) error
		want string
	}{
		"link": {func(file string) error {
			write(t, file+".other", usedPrograms)
			return os.Symlink(file+".other", file)
		}, "is a symbolic link"},
		"second name": {func(file string) error {
			write(t, file+".other", usedPrograms)
			return os.Link(file+".other", file)
		}, "is no regular file with one name"},
		"pipe":   {func(file string) error { return syscall.Mkfifo(file, 0o600) }, "is no regular file"},
		"folder": {func(file string) error { return os.Mkdir(file, 0o700) }, "is no regular file"},
		"large": {func(file string) error {
			write(t, file, "")
			return os.Truncate(file, maxBytes+1)
		}, "is larger than 16 MiB"},
		"newer":          {func(file string) error { write(t, file, `{"Version":2,"Places":[]}`); return nil }, "is of version 2"},
		"more behind it": {func(file string) error { write(t, file, usedPrograms+"[]"); return nil }, "after top-level value"},
	} {
		dir := t.TempDir()
		if err := x.make(filepath.Join(dir, placesFile)); err != nil {
			t.Fatal(err)
		}
		u, err := LoadPlaces(dir)
		if err == nil || !strings.Contains(err.Error(), x.want) || len(u.Places) != 0 {
			t.Errorf("%s: %d places, %v", name, len(u.Places), err)
		}
	}
}

// What no configuration can have is left aside, whatever else is in the list: a
// name that is missing would mean the default one.
func TestPlacesThatNoConfigurationHas(t *testing.T) {
	dir := t.TempDir()
	programs := func(change func(*Command)) Action {
		c := &Command{Ban: []string{"/bin/true"}, Unban: []string{"/bin/true"}, Batch: 1, Timeout: minTimeout, Concurrency: 1}
		change(c)
		return Action{Name: "x", Type: TypeCommand, Command: c}
	}
	table := Action{Name: "good", Type: TypeNftables, Table: "tailban"}
	bad := []UsedPlace{
		{Action: Action{Name: "x", Type: TypeNftables}},
		{Action: Action{Name: "x", Type: TypeNftables, Table: "a b"}},
		{Action: Action{Type: TypeNftables, Table: "tailban"}},
		{Action: Action{Name: "x\n", Type: TypeNftables, Table: "tailban"}},
		{Action: Action{Name: "x", Type: TypeIptables, Sets: "tailban"}},
		{Action: Action{Name: "x", Type: TypeIptables, Chain: "TAILBAN"}},
		{Action: Action{Name: "x", Type: TypeIptables, Chain: "INPUT", Sets: "tailban"}},
		{Action: Action{Name: "x", Type: TypeIptables, Chain: "TAILBAN", Sets: "tailban", Siblings: []string{"-F"}}},
		{Action: Action{Name: "x", Type: TypeIptables, Chain: "TAILBAN", Sets: "tailban", Variant: "other"}},
		{Action: Action{Name: "x", Type: TypeLog}},
		{Action: Action{Name: "x"}},
		{Action: Action{Name: "x", Type: TypeCommand}},
		{Action: table, Targets: make([]netip.Prefix, 1)},
		{Action: programs(func(c *Command) { c.Ban = []string{"/bin/true", "{port}"} })},
		{Action: programs(func(c *Command) { c.Unban = nil })},
		{Action: programs(func(c *Command) { c.Unban = []string{"true"} })},
		{Action: programs(func(c *Command) { c.ListTarget = "dst" })},
		{Action: programs(func(c *Command) { c.Batch = 0 })},
		{Action: programs(func(c *Command) { c.Timeout = 0 })},
		{Action: programs(func(c *Command) { c.Concurrency = 1000 })},
	}
	for i, b := range bad {
		if err := SavePlaces(dir, []UsedPlace{b, {Action: table}}); err != nil {
			t.Fatal(err)
		}
		u, err := LoadPlaces(dir)
		if err != nil || len(u.Bad) != 1 || len(u.Places) != 1 || u.Places[0].Action.Name != "good" {
			t.Errorf("%d, %+v: %v, bad are %v, good %v", i, b, err, u.Bad, u.Places)
		}
	}
	good := []UsedPlace{
		{Action: table},
		{Action: Action{Name: "x", Type: TypeIptables, Chain: "TAILBAN", Sets: "tailban", Variant: VariantNft, Siblings: []string{"OTHER"}}},
		{Action: programs(func(*Command) {}), Targets: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}},
	}
	if err := SavePlaces(dir, good); err != nil {
		t.Fatal(err)
	}
	if u, err := LoadPlaces(dir); err != nil || !reflect.DeepEqual(u.Places, good) || len(u.Bad) > 0 {
		t.Errorf("%v, bad are %v, good %+v", err, u.Bad, u.Places)
	}
}
