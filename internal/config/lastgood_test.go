package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write makes a configuration file with a state folder beside it.
func writeConfig(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "jails.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Whatever is wrong with the file, the copy of the one that ran before is
// found and is what ran.
func TestLastGood(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	top := "state_dir = \"" + state + "\"\n"
	path := writeConfig(t, dir, top+base)
	c, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has nothing to do
		if err := c.SaveLastGood(); err != nil {
			t.Fatal(err)
		}
	}
	if files, _ := os.ReadDir(state); len(files) != 2 {
		t.Errorf("the state folder holds %v", files)
	}
	for _, tt := range []struct {
		name, text string
		env        []string
	}{
		{"an unknown key", top + "limits = 3\n" + base, nil},
		{"no TOML at all", "[[[", []string{"STATE_DIRECTORY=" + state}},
		{"no TOML behind it", top + "[[[", nil},
		{"another type", top + "[logs]\nx = 1\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := writeConfig(t, dir, tt.text)
			if _, err := Load(path, tt.env); err == nil {
				t.Fatal("the file is good")
			}
			last, at, err := LoadLastGood(path, tt.env)
			if err != nil {
				t.Fatal(err)
			}
			if at != filepath.Join(state, lastGoodFile) || len(last.Jails) != len(c.Jails) || last.StateDir != state {
				t.Errorf("got %+v from %s", last, at)
			}
		})
	}
	// A copy that is damaged itself, or of another folder, is none.
	path = writeConfig(t, dir, top+"x = 1\n")
	if err := os.WriteFile(filepath.Join(state, lastGoodFile), []byte(strings.Replace(top, "state\"", "elsewhere\"", 1)+base), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadLastGood(path, nil); err == nil || !strings.Contains(err.Error(), "is of another state_dir") {
		t.Errorf("error %v", err)
	}
}

// A file of addresses that is gone at the next start is taken as it was.
func TestLastGoodHasItsLists(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "proxies.txt")
	if err := os.WriteFile(list, []byte("198.51.100.0/24 # ours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := writeConfig(t, dir, "state_dir = \""+dir+"\"\ntrusted_proxies = [\"file:"+list+"\"]\n"+base)
	c, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SaveLastGood(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, nil); err == nil {
		t.Fatal("the file is not missed")
	}
	last, _, err := LoadLastGood(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(last.TrustedProxies) != 1 || last.TrustedProxies[0].String() != "198.51.100.0/24" {
		t.Errorf("trusted: %v", last.TrustedProxies)
	}
}

// Who may write to the state folder must not have root run by what he has put there.
func TestLastGoodOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	state := t.TempDir()
	top := "state_dir = \"" + state + "\"\n"
	c, err := Load(writeConfig(t, t.TempDir(), top+base), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SaveLastGood(); err != nil {
		t.Fatal(err)
	}
	bad := writeConfig(t, t.TempDir(), top+"x = 1\n")
	if _, _, err := LoadLastGood(bad, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{state, filepath.Join(state, lastGoodFile)} {
		if err := os.Chown(path, 4711, 4711); err != nil {
			t.Fatal(err)
		}
		if _, _, err := LoadLastGood(bad, nil); err == nil || !strings.Contains(err.Error(), "must be root's") {
			t.Errorf("%s is somebody else's: %v", path, err)
		}
		if err := os.Chown(path, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}
