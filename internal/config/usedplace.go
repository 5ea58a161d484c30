package config

import (
	"errors"
	"fmt"

	"github.com/tailban/tailban/internal/argv"
)

// problem says what could not be in a configuration: nothing is removed or run that
// no configuration can have named. What is missing would mean the default, which
// something else may use.
func (p *UsedPlace) problem() error {
	a := &p.Action
	if !isName(a.Name) {
		return fmt.Errorf("%q is no name of an action", a.Name)
	}
	for _, t := range p.Targets {
		if !t.IsValid() {
			return errors.New("a target is no address and no network")
		}
	}
	switch a.Type {
	case TypeNftables:
		if !isTable(a.Table) {
			return fmt.Errorf("%q is no name of a table", a.Table)
		}
	case TypeIptables:
		for _, chain := range append([]string{a.Chain}, a.Siblings...) {
			if !isSlug(chain) || len(chain) > maxChain || isForeignChain(chain) {
				return fmt.Errorf("%q is no name of a chain that it may have", chain)
			}
		}
		if !isSlug(a.Sets) || len(a.Sets) > maxChain {
			return fmt.Errorf("%q is no beginning of names of sets", a.Sets)
		}
		if a.Variant != "" && a.Variant != VariantNft && a.Variant != VariantLegacy {
			return fmt.Errorf("no variant is called %q", a.Variant)
		}
	case TypeCommand:
		return a.Command.problem()
	case TypeCloudflare:
		return a.Cloudflare.problem()
	default:
		return fmt.Errorf("no action of type %q leaves anything behind", a.Type)
	}
	return nil
}

// problem is that of a place, for its programs.
func (c *Command) problem() error {
	switch {
	case c == nil:
		return errors.New("it has no programs")
	case c.Batch < 1 || c.Batch > maxBatch:
		return fmt.Errorf("batch: %d", c.Batch)
	case c.Timeout < minTimeout || c.Timeout > maxTimeout:
		return fmt.Errorf("timeout: %v", c.Timeout)
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return fmt.Errorf("concurrency: %d", c.Concurrency)
	case c.ListTarget != "" && len(c.List) == 0, c.ListSeconds != "" && c.ListTarget == "":
		return errors.New("keys of what list writes, which isn't there")
	}
	for _, x := range []struct {
		verb     argv.Verb
		args     []string
		required bool
	}{{argv.Ban, c.Ban, true}, {argv.Unban, c.Unban, true}, {argv.Check, c.Check, false}, {argv.List, c.List, false}} {
		if len(x.args) == 0 && !x.required {
			continue
		}
		if len(x.args) == 0 {
			return fmt.Errorf("%s is missing", x.verb)
		}
		if _, wrong := argv.Parse(x.verb, x.args, c.Batch > 1); len(wrong) > 0 {
			return fmt.Errorf("%s: %w", x.verb, wrong[0].Err)
		}
	}
	return nil
}
