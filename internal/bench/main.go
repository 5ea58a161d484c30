// Command bench measures replays of one log beside simpler programs that read
// the same file, each in a process of its own, several times in turn:
//
//	go run ./internal/bench              a log of the generator beside the checkout
//	go run ./internal/bench -log FILE    one in nginx's stock "main" format
//
// Ratios are what to compare: whatever else the machine does meets all of them.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	var o options
	flag.StringVar(&o.log, "log", "", "log file; empty: one that ../shared/bench/loggen makes")
	flag.IntVar(&o.lines, "lines", 5_000_000, "of the log that is made")
	flag.IntVar(&o.runs, "runs", 5, "of each, of which the best counts")
	flag.StringVar(&o.profile, "profile", "", "file; write a CPU profile of the replays to it, and do nothing else")
	child := flag.String("child", "", "run this once and print what it took; for bench itself")
	flag.Parse()
	if err := run(o, *child); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct {
	log         string
	lines, runs int
	profile     string
}

func run(o options, child string) error {
	if child != "" {
		return runChild(child, o.log)
	}
	if o.log == "" {
		var err error
		if o.log, err = generated(o.lines); err != nil {
			return err
		}
	}
	if o.profile != "" {
		return profile(o.profile, o.log)
	}
	st, err := os.Stat(o.log)
	if err != nil {
		return err
	}
	contests := all()
	taken := make([][]result, len(contests))
	for range o.runs {
		for i, c := range contests {
			r, err := c.run(o.log)
			if errors.Is(err, exec.ErrNotFound) {
				continue // no mawk here
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			taken[i] = append(taken[i], r)
		}
	}
	return report(o.log, st.Size(), contests, taken)
}

// report writes a row for each, from the best of its runs: on a machine that
// does other things as well, that is what can be repeated.
func report(log string, size int64, contests []contest, taken [][]result) error {
	var bests []result
	for _, runs := range taken {
		bests = append(bests, best(runs))
	}
	lines := bests[0].Lines // newlines
	fmt.Printf("%s: %d lines, %.0f bytes a line; the best of %d runs\n\n", log, lines, float64(size)/float64(lines), len(taken[0]))
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "what\tlines/s\tMB/s\tns/line\tcpu ns/line\tallocations/line\tpeak MiB\tin newline counts\tin minimal loops\t")
	for i, c := range contests {
		m := bests[i]
		if m.Wall == 0 {
			fmt.Fprintf(tw, "%s\t-\t\t\t\t\t\t\t\t\n", c.name)
			continue
		}
		allocs := "-"
		if m.Allocs >= 0 {
			allocs = fmt.Sprintf("%.5f", float64(m.Allocs)/float64(lines))
		}
		fmt.Fprintf(tw, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%.0f\t%.2f\t%.2f\t\n", c.name, float64(lines)/m.Wall, float64(size)/1e6/m.Wall,
			m.Wall/float64(lines)*1e9, m.CPU/float64(lines)*1e9, allocs, float64(m.Peak)/(1<<20), m.Wall/bests[0].Wall, m.Wall/bests[1].Wall)
	}
	return tw.Flush()
}

// best is the run that took the least time.
func best(runs []result) result {
	if len(runs) == 0 {
		return result{}
	}
	return slices.MinFunc(runs, func(a, b result) int { return cmp.Compare(a.Wall, b.Wall) })
}

// generated makes a log with the generator, once.
func generated(lines int) (string, error) {
	dir := filepath.Join(os.TempDir(), "tailban-bench")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	log := filepath.Join(dir, fmt.Sprintf("%d.log", lines))
	if _, err := os.Stat(log); err == nil {
		return log, nil
	}
	src := filepath.Join("..", "shared", "bench", "loggen")
	if _, err := os.Stat(src); err != nil {
		return "", fmt.Errorf("no generator here (%w): name a log with -log", err)
	}
	abs, err := filepath.Abs(log)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "run", ".", "-lines", fmt.Sprint(lines), "-out", abs+".part")
	cmd.Dir, cmd.Stderr = src, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("make a log: %w", err)
	}
	return log, os.Rename(abs+".part", abs)
}

// result is what one run took.
type result struct {
	Lines  int64
	Wall   float64 // seconds of the work, without the program's start where that is known
	Allocs int64   // -1: not known
	CPU    float64 // seconds, of the whole process
	Peak   int64   // bytes resident
}

// decode reads what a child prints.
func decode(out []byte, r *result) error {
	if err := json.Unmarshal(out, r); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
