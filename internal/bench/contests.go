package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	_ "embed"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/replay"
)

// contest is one way to go over a log.
type contest struct {
	name  string
	child string // what bench runs; empty: it is another program
	cores int
	argv  []string
}

//go:embed one.toml
var oneJail string

//go:embed twenty.toml
var twentyJails string

//go:embed window.awk
var windowAWK string

// all are the contests; the first two are what others are compared with.
func all() []contest {
	return []contest{
		{name: "newline count", child: "newlines", cores: 1},
		{name: "minimal Go loop, exact", child: "minimal", cores: 1},
		{name: "mawk, exact", argv: []string{"mawk", windowAWK}},
		{name: "replay, one jail, one core", child: "one", cores: 1},
		{name: "replay, one jail, two cores", child: "one", cores: 2},
		{name: "replay, twenty jails, one core", child: "twenty", cores: 1},
		{name: "replay, twenty jails, two cores", child: "twenty", cores: 2},
	}
}

// run runs it once, in a process of its own.
func (c *contest) run(log string) (result, error) {
	argv := append(append([]string(nil), c.argv...), log)
	if c.child != "" {
		self, err := os.Executable()
		if err != nil {
			return result{}, err
		}
		argv = []string{self, "-child", c.child, "-log", log}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", max(c.cores, 1)))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	start := time.Now()
	out, err := cmd.Output()
	wall := time.Since(start).Seconds()
	if err != nil {
		return result{}, fmt.Errorf("%w %s", err, strings.TrimSpace(errs.String()))
	}
	r := result{Wall: wall, Allocs: -1}
	if c.child != "" {
		if err := decode(out, &r); err != nil {
			return result{}, err
		}
	}
	usage, _ := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	r.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	r.Peak = usage.Maxrss << 10
	return r, nil
}

// runChild does the work in this process, and prints what it took.
func runChild(name, log string) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	var lines int64
	var err error
	switch name {
	case "newlines":
		lines, err = countNewlines(log)
	case "minimal":
		lines, err = minimal(log)
	case "one":
		err = replayed(oneJail, log)
	case "twenty":
		err = replayed(twentyJails, log)
	default:
		err = fmt.Errorf("nothing is called %q", name)
	}
	wall := time.Since(start).Seconds()
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	return json.NewEncoder(os.Stdout).Encode(result{Lines: lines, Wall: wall, Allocs: int64(after.Mallocs - before.Mallocs)})
}

// profileRuns is how often the replays are run for a profile: with few samples it is
// chance what the compiler takes to be hot.
const profileRuns = 10

// profile writes what the replays spend their time in, on one core, as the compiler
// takes it (go help build, -pgo).
func profile(name, log string) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	runtime.GOMAXPROCS(1)
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile() // before the file is closed
	for range profileRuns {
		err = errors.Join(err, replayed(oneJail, log), replayed(twentyJails, log))
	}
	return err
}

func replayed(conf, log string) error {
	c, err := config.Parse("bench", []byte(conf), nil)
	if err != nil {
		return err
	}
	return replay.Run(context.Background(), replay.Options{
		Config: c, Files: []string{log}, Out: io.Discard, Notes: io.Discard, JSON: true, Now: time.Now,
	})
}
