//go:build linux

package actions

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-iptables/iptables"
)

const (
	// lockWait is how many seconds iptables may wait for the lock that all its
	// processes share.
	lockWait = 5

	// runPatience is how long a run may take. What hangs is ended with all that it
	// has started: its work is done as a whole or not at all.
	runPatience = 10 * time.Second
)

// iptablesOf is the program of one family.
type iptablesOf struct {
	family  ipFamily
	path    string
	variant string
	version [3]int
	limit   time.Duration // of a run
	netNS   int           // where it runs; 0: our own
	ipt     *iptables.IPTables
	left    *IptablesRuns

	// restore is the path of the program that makes several changes at once, if it
	// is there.
	restore string
}

// newTool asks a program for its version.
func newTool(ctx context.Context, path string, f ipFamily, limit time.Duration, left *IptablesRuns) (*iptablesOf, error) {
	out, _, err := execute(ctx, program{argv: []string{path, "--version"}, limit: limit, keep: maxSaid})
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	tool := &iptablesOf{family: f, path: path, variant: VariantLegacy, limit: limit, left: left}
	if strings.Contains(string(out), "nf_tables") { // before 1.8 there was but one variant
		tool.variant = VariantNft
	}
	version := regexp.MustCompile(`v([0-9]+)\.([0-9]+)\.([0-9]+)`).FindStringSubmatch(string(out))
	if version == nil {
		return nil, fmt.Errorf("ask %s for its version: there is none in %q", path, strings.TrimSpace(string(out)))
	}
	for i := range tool.version {
		tool.version[i], _ = strconv.Atoi(version[i+1]) // digits
	}
	if !tool.atLeast(1, 4, 20) {
		return nil, Permanent(fmt.Errorf("%s is of version %s, which can't wait for others that change rules at the same time: 1.4.20 or newer is needed", path, version[0]))
	}
	if tool.atLeast(1, 6, 2) { // or it doesn't wait for others
		tool.restore, _ = exec.LookPath(path + "-restore")
	}
	proto := iptables.ProtocolIPv4
	if f.v6 {
		proto = iptables.ProtocolIPv6
	}
	made := make(chan *iptables.IPTables, 1)
	err = tool.bounded(ctx, func() error { // it asks as well
		ipt, err := iptables.New(iptables.Path(path), iptables.IPFamily(proto), iptables.Timeout(lockWait))
		made <- ipt
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", path, err)
	}
	tool.ipt = <-made
	return tool, nil
}

func (tool *iptablesOf) atLeast(version ...int) bool {
	return slices.Compare(tool.version[:], version) >= 0
}

// atOnce makes changes to the table filter, each as arguments of iptables, in one
// step: nobody sees a part of them, and if one fails none is made.
func (tool *iptablesOf) atOnce(ctx context.Context, changes []string) error {
	input := "*" + tableFilter + "\n" + strings.Join(changes, "\n") + "\nCOMMIT\n"
	_, err := tool.execute(ctx, program{
		argv: []string{tool.restore, "--noflush", "--wait", strconv.Itoa(lockWait)}, stdin: []byte(input),
	})
	return err
}

func (tool *iptablesOf) execute(ctx context.Context, p program) (string, error) {
	p.limit, p.keep = tool.limit, maxListing
	out, cut, err := execute(ctx, p)
	if err == nil && cut {
		err = fmt.Errorf("wrote more than %d MB", maxListing>>20)
	}
	if err != nil {
		return "", fmt.Errorf("running %s: %w", strings.Join(p.argv, " "), err)
	}
	return string(out), nil
}

// ask runs the program about the table filter. It is for what changes nothing and
// for which go-iptables has no function; changes are made by within.
func (tool *iptablesOf) ask(ctx context.Context, args ...string) (out string, err error) {
	argv := append([]string{tool.path, "-t", tableFilter}, args...)
	argv = append(argv, "--wait")
	if tool.atLeast(1, 6, 0) {
		argv = append(argv, strconv.Itoa(lockWait))
	}
	return tool.execute(ctx, program{argv: argv})
}

// list lists the rules of all chains, as they are written in a listing from the
// name of the chain on.
func (tool *iptablesOf) list(ctx context.Context) (map[string][]string, error) {
	out, err := tool.ask(ctx, "-S")
	if err != nil {
		return nil, err
	}
	chains := map[string][]string{}
	for line := range strings.Lines(out) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, rule, _ := strings.Cut(rest, " ")
		switch verb {
		case "-P", "-N":
			chains[name] = []string{}
		case "-A":
			chains[name] = append(chains[name], strings.TrimSpace(rule))
		}
	}
	return chains, nil
}

// isNotThere reports whether an error is that there is no such rule or chain.
func isNotThere(err error) bool {
	var e *iptables.Error
	return errors.As(err, &e) && e.IsNotExist()
}

// mayLookUp tells whether rules that look into IP sets can be made. It tries it
// with a set that is not there, and changes nothing.
func (tool *iptablesOf) mayLookUp(ctx context.Context, opt IptablesOptions) error {
	if _, err := tool.read(ctx, opt); err != nil {
		return err
	}
	// The library's answer would be no more than that there is no such rule.
	_, err := tool.ask(ctx, "-C", chainInput, "-m", "set", "--match-set", ipsetName(opt, setNew), "src", "-j", "RETURN")
	if err != nil && strings.Contains(err.Error(), noSocketToIPSet) {
		return tool.explain("look for a set", err)
	}
	return nil // of all else that may be wrong the step that meets it tells
}
