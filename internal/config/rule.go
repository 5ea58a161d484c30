package config

import (
	"slices"
	"time"
)

// Bounds of a jail's numbers.
const (
	maxLimit  = 100_000
	minWindow = time.Second
	maxWindow = 7 * day
	minBan    = time.Second
	maxBan    = 365 * day

	minRemember = time.Hour
	maxRemember = 365 * day

	// maxSteps is how many lengths a ladder may have.
	maxSteps = 16
)

// given is a value that may be absent. A value that is there but wrong counts
// as given: it has been reported, and must not be called missing as well.
type given[T any] struct {
	v  T
	is bool
}

func (g given[T]) or(other given[T]) given[T] {
	if g.is {
		return g
	}
	return other
}

// ruleKeys are the keys a table of rules can have.
type ruleKeys uint8

const (
	ruleLog ruleKeys = 1 << iota
	ruleLimit
	ruleWindow
	ruleBan
	ruleRemember
	ruleMode
	ruleActions

	ruleAll = ruleLog | ruleLimit | ruleWindow | ruleBan | ruleRemember | ruleMode | ruleActions
)

// rule is what jails, their defaults and [deny] have in common.
type rule struct {
	logs     given[[]string]
	limit    given[int]
	window   given[time.Duration]
	ban      given[[]time.Duration]
	remember given[time.Duration]
	observe  given[bool]
	actions  given[[]string]
}

// or returns r with what it lacks taken from other.
func (r rule) or(other rule) rule {
	return rule{
		logs:     r.logs.or(other.logs),
		limit:    r.limit.or(other.limit),
		window:   r.window.or(other.window),
		ban:      r.ban.or(other.ban),
		remember: r.remember.or(other.remember),
		observe:  r.observe.or(other.observe),
		actions:  r.actions.or(other.actions),
	}
}

// readRule reads the given keys of a table. refs may be nil if none of ruleLog,
// ruleRemember and ruleActions is among them.
func readRule(s *section, keys ruleKeys, refs *references) rule {
	var r rule
	if keys&ruleLog != 0 {
		r.logs = option(s, "log", func(n node) []string {
			return n.nonEmptyTexts(refersTo("log", refs.logs))
		})
	}
	if keys&ruleLimit != 0 {
		r.limit = option(s, "limit", node.limit)
	}
	if keys&ruleWindow != 0 {
		r.window = option(s, "window", func(n node) time.Duration {
			d, _ := n.duration(minWindow, maxWindow)
			return d
		})
	}
	if keys&ruleBan != 0 {
		r.ban = option(s, "ban", node.ladder)
	}
	if keys&ruleRemember != 0 {
		r.remember = option(s, "remember", func(n node) time.Duration {
			if refs.shared {
				n.bad("with shared_history there is one history for all jails: put this at the top level")
			}
			return n.remember()
		})
	}
	if keys&ruleMode != 0 {
		r.observe = option(s, "mode", node.observe)
	}
	if keys&ruleActions != 0 {
		r.actions = option(s, "actions", func(n node) []string {
			return n.texts(refersTo("action", refs.actions))
		})
	}
	return r
}

func option[T any](s *section, key string, read func(node) T) given[T] {
	n, ok := s.get(key)
	if !ok {
		return given[T]{}
	}
	return given[T]{v: read(n), is: true}
}

// require returns a value of the section, or records that it is missing.
func require[T any](s *section, key string, g given[T], msg string) T {
	if !g.is {
		s.missing(key, "%s", msg)
	}
	return g.v
}

func (n node) limit() int {
	i, _ := n.whole(0, maxLimit)
	return i
}

// ladder reads the lengths of bans, by offence. None may be shorter than one
// before: whoever offends again must not be better off.
func (n node) ladder() []time.Duration {
	items := n.items()
	switch {
	case len(items) == 0:
		n.bad("must not be empty")
	case len(items) > maxSteps:
		n.bad("has %d steps: %d at most, the last holds for all further offences", len(items), maxSteps)
	}
	var out []time.Duration
	longest := time.Duration(0)
	for _, item := range items {
		d, ok := item.duration(minBan, maxBan)
		if ok && d < longest {
			item.bad("is shorter than a step before it (%s): a further offence can't shorten the ban", FormatDuration(longest))
		}
		longest = max(longest, d)
		out = append(out, d)
	}
	return out
}

func (n node) remember() time.Duration {
	d, _ := n.duration(minRemember, maxRemember)
	return d
}

// refersTo is a check for texts that accepts names of things that exist.
func refersTo(what string, names []string) func(node, string) bool {
	return func(item node, s string) bool {
		if slices.Contains(names, s) {
			return true
		}
		item.bad("there is no %s of this name%s", what, suggest(s, names))
		return false
	}
}
