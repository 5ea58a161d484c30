package config

import (
	"fmt"
	"time"

	"github.com/tailban/tailban/internal/argv"
)

// Command is what programs do for an action. The first element of each list is
// the program.
type Command struct {
	Ban, Unban, Check, List []string

	ListTarget  string // key of the target in JSON that List writes; "": it writes lines
	ListSeconds string // key of the seconds left

	Expires     bool // the program ends bans at their time
	Batch       int  // targets of one run; 1: one
	Timeout     time.Duration
	Concurrency int // runs at a time
}

// Bounds of what a command may take.
const (
	maxBatch       = 100_000
	minTimeout     = time.Second
	maxTimeout     = 10 * time.Minute
	maxConcurrency = 64
)

// readCommand reads what is particular to programs. owners says which action has
// them.
func readCommand(t named, a *Action, owners map[string]string) {
	c := &Command{Batch: 1, Timeout: DefaultTimeout, Concurrency: DefaultConcurrency}
	a.Command = c
	if n, ok := t.get("batch"); ok {
		c.Batch, _ = n.whole(1, maxBatch)
	}
	for _, x := range []struct {
		verb     argv.Verb
		to       *[]string
		required bool
	}{{argv.Ban, &c.Ban, true}, {argv.Unban, &c.Unban, true}, {argv.Check, &c.Check, false}, {argv.List, &c.List, false}} {
		n, ok := t.get(string(x.verb))
		switch {
		case ok:
			*x.to = n.program(x.verb, c.Batch > 1)
			if x.verb == argv.Ban || x.verb == argv.List {
				n.ownProgram(x.verb, *x.to, a.Name, owners)
			}
		case x.required:
			t.missing(string(x.verb), `required: the program and its arguments, as a list`)
		}
	}
	if n, ok := t.get("list_target"); ok {
		c.ListTarget, _ = n.text()
		if _, listed := t.get("list"); !listed {
			n.bad("is the key of a target in what list writes, and there is no list")
		}
	}
	if n, ok := t.get("list_seconds"); ok {
		c.ListSeconds, _ = n.text()
		if _, keyed := t.get("list_target"); !keyed {
			n.bad("is a key in JSON that list writes, as list_target is, which is missing; lines have no keys")
		}
	}
	if n, ok := t.get("expires"); ok {
		c.Expires, _ = n.flag()
	}
	if n, ok := t.get("timeout"); ok {
		c.Timeout, _ = n.duration(minTimeout, maxTimeout)
	}
	if n, ok := t.get("concurrency"); ok {
		c.Concurrency, _ = n.whole(1, maxConcurrency)
	}
}

// ownProgram is own for a program and its arguments: two actions that ban in one
// place, or list it, would take out each other's bans.
func (n node) ownProgram(verb argv.Verb, args []string, action string, owners map[string]string) {
	if len(args) == 0 {
		return // reported
	}
	key := fmt.Sprintf("%s %q", verb, args)
	if owner, taken := owners[key]; taken {
		n.bad("is what actions.%s has as well: each would take out the other's bans", owner)
		return
	}
	owners[key] = action
}

// program reads a program and its arguments.
func (n node) program(verb argv.Verb, batch bool) []string {
	if _, list := n.v.([]any); !list {
		n.bad(`must be a list, like ["/usr/sbin/ip", "route", "show"]: the program and its arguments, as no shell takes them apart`)
		return nil
	}
	items := n.items()
	args := make([]string, len(items))
	whole := len(items) > 0
	if !whole {
		n.bad("must not be empty: the program and its arguments")
	}
	for i, item := range items {
		s, ok := item.v.(string)
		if !ok {
			item.bad("must be text in quotes")
			whole = false
		}
		args[i] = s
	}
	if !whole {
		return nil
	}
	_, wrong := argv.Parse(verb, args, batch)
	for _, w := range wrong {
		items[w.Element].bad("%v", w.Err)
	}
	return args
}
