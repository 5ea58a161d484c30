package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/tailban/tailban/internal/access"
	"github.com/tailban/tailban/internal/wholefile"
)

// Names, in the state folder, of copies of the configuration that ran last and
// of the files of addresses that it names.
const (
	lastGoodFile  = "last-good.toml"
	lastGoodLists = "last-good-lists.json"
)

// maxKeptLists is how large the copy of the lists may be, in bytes.
const maxKeptLists = 256 << 20

// SaveLastGood keeps a copy of the configuration's text in its state folder,
// with the files of addresses, for a start at which one of these has problems.
// It does nothing if the same texts are kept already.
func (c *Config) SaveLastGood() error {
	lists, err := json.Marshal(c.doc.lists)
	if err == nil {
		err = keepCopy(filepath.Join(c.StateDir, lastGoodLists), lists)
	}
	if err == nil {
		err = keepCopy(filepath.Join(c.StateDir, lastGoodFile), []byte(c.doc.text))
	}
	if err != nil {
		return fmt.Errorf("keep a copy of the configuration: %w", err)
	}
	return nil
}

// keepCopy writes a file as a whole, mode 0600, unless it holds that already.
func keepCopy(path string, data []byte) error {
	if old, err := wholefile.Read(path, int64(len(data))); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return wholefile.Write(path, data)
}

// LoadLastGood reads the copy of the configuration that ran before the one at
// path, which has problems. Where its state folder is, it takes from the
// environment or from that file as far as it can be read. It returns the path
// of the copy. Root takes none that somebody else could have written: a
// configuration says which programs are run.
func LoadLastGood(path string, env []string) (*Config, string, error) {
	dir := StateDir(path, env)
	copied := filepath.Join(dir, lastGoodFile)
	if os.Geteuid() == 0 {
		if err := access.Changeable(copied, 0); err != nil {
			return nil, copied, fmt.Errorf("a copy that root runs by must be root's: %w", err)
		}
	}
	data, err := wholefile.Read(copied, maxFile)
	if err != nil {
		return nil, copied, err
	}
	var kept map[string]string
	if lists, err := wholefile.Read(filepath.Join(dir, lastGoodLists), maxKeptLists); err == nil {
		_ = json.Unmarshal(lists, &kept) // without them, the files themselves are read
	}
	c, err := parse(copied, data, env, kept)
	if err != nil {
		return nil, copied, err
	}
	if c.StateDir != dir {
		return nil, copied, fmt.Errorf("%s is of another state_dir, %s", copied, c.StateDir)
	}
	return c, copied, nil
}

// looseStateDir finds state_dir in a file that may be wrong elsewhere.
func looseStateDir(path string) string { return looseDir(path, "state_dir", DefaultStateDir) }

// RuntimeDir is where the sockets of a daemon are that runs by the
// configuration at path, as far as that can be told: the file may be wrong, or
// not to be read by whoever asks.
func RuntimeDir(path string, env []string) string {
	if first := firstDir(env, "RUNTIME_DIRECTORY"); first != "" {
		return first
	}
	return looseDir(path, "runtime_dir", DefaultRuntimeDir)
}

func looseDir(path, key, otherwise string) string {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxFile {
		return otherwise
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return otherwise
	}
	// Top-level keys stand before the first table; what is wrong behind them
	// doesn't matter here.
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			break
		}
		if name, _, ok := strings.Cut(line, "="); !ok || strings.TrimSpace(name) != key {
			continue
		}
		loose := map[string]any{}
		if _, err := toml.Decode(line, &loose); err != nil {
			break
		}
		if s, ok := loose[key].(string); ok && filepath.IsAbs(s) {
			return filepath.Clean(s)
		}
	}
	return otherwise
}
