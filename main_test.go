package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tailban": main})
}

// Each script in testdata/script runs the real program.
func TestScripts(t *testing.T) {
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("DATA", data)
			e.Setenv("ROOT", filepath.Dir(data))
			e.Setenv("TZ", "UTC")
			e.Setenv("RUNTIME_DIRECTORY", filepath.Join(e.WorkDir, "run"))
			// Configurations take absolute paths only.
			configs, err := filepath.Glob(filepath.Join(e.WorkDir, "*.toml"))
			if err != nil {
				return err
			}
			for _, path := range configs {
				if err := expand(path, e.WorkDir); err != nil {
					return err
				}
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "root" {
				return false, fmt.Errorf("no condition is called %q", cond)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"waitfor": waitFor},
	})
}

// waitFor is "waitfor FILE PATTERN": it waits until a line of the file fits.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfor FILE PATTERN")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	end := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		text, _ := os.ReadFile(ts.MkAbs(args[0])) // it may not be there yet
		if re.Match(text) {
			return
		}
		select {
		case <-end:
			ts.Fatalf("no line of %s fits %s:\n%s", args[0], args[1], text)
		case <-tick.C:
		}
	}
}

// expand puts the script's folder in place of ${WORK} in a file.
func expand(path, work string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ReplaceAll(text, []byte("${WORK}"), []byte(work)), 0o644)
}
