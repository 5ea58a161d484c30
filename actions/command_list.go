//go:build linux

package actions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tailban/tailban/internal/argv"
	"github.com/tailban/tailban/internal/term"
)

// maxSeconds is the longest time left that a listing may tell.
const maxSeconds = 1e9

// manyChecks is from how many targets on a list is asked instead of check, if
// there is one, and maxChecks how many are asked for at most.
const (
	manyChecks = 5
	maxChecks  = 64
)

// List implements [Action]: what list writes, or else what has been applied.
func (c *Command) List(ctx context.Context) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer c.tellOverdue(ctx) // it may be seen that some are gone
	if !c.list.Given() {
		if c.looksAround() {
			signal(c.passed)
		}
		now := time.Now()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.memory.forget(now, c.opt.Expires)
		return c.memory.entries(now), nil
	}
	c.mu.Lock()
	begun := c.memory.beginListing()
	c.mu.Unlock()
	listed, err := c.listed(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.memory.endListing()
	if err != nil {
		return nil, err
	}
	defer c.wakeRun()
	now := time.Now()
	entries := c.memory.learn(listed, begun, now, c.opt.Expires)
	c.memory.forget(now, c.opt.Expires)
	return entries, nil
}

// listed runs list and returns the time left of each target; 0: not told.
func (c *Command) listed(ctx context.Context) (map[netip.Prefix]time.Duration, error) {
	families := []int{0}
	if c.list.Has(argv.Family) {
		families = []int{4, 6}
	}
	found := map[netip.Prefix]time.Duration{}
	for _, family := range families {
		out, cut, err := c.run(ctx, c.list, values{family: family}, nil, maxListing)
		if err == nil && cut {
			err = fmt.Errorf("%s wrote more than %d MB", c.list.Program(), maxListing>>20)
		}
		if err == nil {
			err = c.parseListing(out, found)
		}
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
	}
	c.leaveOutStrange(found)
	return found, nil
}

// leaveOutStrange drops from a listing what can be no ban of ours, such as
// 0.0.0.0/0: it can't have been put in by us, and is not ours to take out. It is
// warned of when it appears.
func (c *Command) leaveOutStrange(found map[netip.Prefix]time.Duration) {
	strange, example := 0, netip.Prefix{}
	for target := range found {
		if c.fits(target) {
			continue
		}
		delete(found, target)
		if strange++; strange == 1 || target.Compare(example) < 0 {
			example = target
		}
	}
	c.mu.Lock()
	news := strange > 0 && !c.strange
	c.strange = strange > 0
	c.mu.Unlock()
	if news {
		c.log.Warn("list shows what can be no ban of this action, it is left alone",
			slog.Int("count", strange), slog.String("example", example.String()))
	}
}

func (c *Command) parseListing(out []byte, found map[netip.Prefix]time.Duration) error {
	put := func(target, seconds string) error {
		p, err := parseTarget(target)
		if err != nil {
			return err
		}
		left, err := parseLeft(seconds)
		if err != nil {
			return err
		}
		if len(found) >= maxListed {
			return fmt.Errorf("more than %d bans", maxListed)
		}
		if before, twice := found[p]; !twice || left > before {
			found[p] = left
		}
		return nil
	}
	if c.opt.ListTarget != "" {
		return parseObjects(out, c.opt.ListTarget, c.opt.ListSeconds, put)
	}
	return parseLines(out, put)
}

func parseLines(out []byte, put func(target, seconds string) error) error {
	n := 0
	for line := range bytes.Lines(out) {
		n++
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			continue
		}
		err := errors.New("a line is a target, and the seconds left if they are known")
		if len(fields) <= 2 {
			err = put(fields[0], strings.Join(fields[1:], ""))
		}
		if err != nil {
			return fmt.Errorf("line %d, %s: %w", n, excerpt(string(line)), err)
		}
	}
	return nil
}

// parseObjects reads JSON objects, one after the other or in arrays.
func parseObjects(out []byte, targetKey, secondsKey string, put func(target, seconds string) error) error {
	d := json.NewDecoder(bytes.NewReader(out))
	n := 0
	for {
		var value json.RawMessage
		if err := d.Decode(&value); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("its output is no JSON: %w", err)
		}
		objects := []map[string]json.RawMessage{nil}
		into := any(&objects[0])
		if value[0] == '[' {
			into = &objects
		}
		if err := json.Unmarshal(value, into); err != nil {
			return fmt.Errorf("its output is JSON, but no objects: %w", err)
		}
		for _, o := range objects {
			n++
			if err := putObject(o, targetKey, secondsKey, put); err != nil {
				return fmt.Errorf("object %d: %w", n, err)
			}
		}
	}
}

func putObject(o map[string]json.RawMessage, targetKey, secondsKey string, put func(target, seconds string) error) error {
	var target string
	if err := json.Unmarshal(o[targetKey], &target); err != nil {
		return fmt.Errorf("no text at the key %q of the target", targetKey)
	}
	var seconds string
	if raw, ok := o[secondsKey]; ok && secondsKey != "" && string(raw) != "null" {
		seconds = strings.Trim(string(raw), `"`)
	}
	if err := put(target, seconds); err != nil {
		return fmt.Errorf("%s: %w", excerpt(target), err)
	}
	return nil
}

func excerpt(s string) string {
	const most = 80
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = s[:most] + "…"
	}
	return `"` + term.Escape(s) + `"`
}

// parseTarget reads an address or a network.
func parseTarget(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, errors.New("no address and no network")
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	if p.Addr().Is4In6() || p != p.Masked() {
		return netip.Prefix{}, errors.New("a network that is no ban of ours: it has bits beyond its length, or is IPv4 written as IPv6")
	}
	return p, nil
}

// parseLeft reads seconds; what has ended has a moment left, as 0 stands for
// not told.
func parseLeft(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0 && f <= maxSeconds) {
		return 0, fmt.Errorf("%s is no number of seconds", excerpt(s))
	}
	return max(time.Duration(f*float64(time.Second)), anyMoment), nil
}

// exitStatus is that of a program, or -1.
func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// confirm looks whether what has failed is as it should be nevertheless, as
// far as that can be told: a program may fail for what is done already.
func (c *Command) confirm(ctx context.Context, jobs []*job) {
	byVerb := map[argv.Verb][]*item{}
	n := 0
	for _, j := range jobs {
		if j.verb == argv.Ban && c.opt.Expires {
			continue // it may be there with another time
		}
		for _, it := range j.items {
			if exitStatus(it.err) > 0 {
				byVerb[j.verb] = append(byVerb[j.verb], it)
				n++
			}
		}
	}
	if n == 0 || ctx.Err() != nil {
		return
	}
	held := c.lookAt(ctx, n)
	if held == nil {
		return
	}
	var all sync.WaitGroup
	workers := make(chan struct{}, c.opt.Concurrency)
	for v, items := range byVerb {
		for _, it := range items[:min(len(items), maxChecks)] {
			workers <- struct{}{}
			all.Go(func() {
				defer func() { <-workers }()
				if yes, err := held(it.target); err == nil && yes == (v == argv.Ban) {
					it.err = nil
					c.mu.Lock()
					defer c.mu.Unlock()
					c.worked(v, it)
				}
			})
		}
	}
	all.Wait()
}

// lookAt returns how to tell whether a target is banned, n of which are asked
// for; nil: not at all.
func (c *Command) lookAt(ctx context.Context, n int) func(netip.Prefix) (bool, error) {
	if c.check.Given() && (n < manyChecks || !c.list.Given()) {
		return func(target netip.Prefix) (bool, error) { return c.ask(ctx, target) }
	}
	if !c.list.Given() {
		return nil
	}
	listed, err := c.listed(ctx)
	return func(target netip.Prefix) (bool, error) {
		_, held := listed[target]
		return held, err
	}
}
