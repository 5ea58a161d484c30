package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tailban/tailban/detector"
)

// Prefixes of the variables that override a jail's limit (not those for single
// networks) and its ban, all steps of it. The jail's
// name follows, in upper case and with _ for -.
const (
	envOurs  = "TAILBAN_"
	envLimit = "TAILBAN_LIMIT_"
	envBan   = "TAILBAN_BAN_"
)

// override applies the environment to jails. names are those of the file,
// also of jails that were not accepted.
func override(doc *document, env []string, jails []detector.Jail, names []string) {
	bySuffix := map[string][]string{}
	var suffixes []string
	for _, name := range names {
		s := envSuffix(name)
		if bySuffix[s] == nil {
			suffixes = append(suffixes, s)
		}
		bySuffix[s] = append(bySuffix[s], name)
	}
	for _, variable := range envNames(env) {
		if !strings.HasPrefix(variable, envLimit) && !strings.HasPrefix(variable, envBan) {
			envNode(doc, variable, "").warn("is ignored: of the environment only %sNAME and %sNAME override something", envLimit, envBan)
			continue
		}
		prefix := envLimit
		if strings.HasPrefix(variable, envBan) {
			prefix = envBan
		}
		value, _ := lookupEnv(env, variable)
		n := envNode(doc, variable, value)
		suffix := strings.TrimPrefix(variable, prefix)
		switch owners := bySuffix[suffix]; {
		case len(owners) == 0:
			n.bad("there is no such jail%s", suggestVariable(prefix, suffix, suffixes))
		case len(owners) > 1:
			n.bad("could mean any of the jails %s: rename all but one", strings.Join(owners, ", "))
		default:
			jail := &detector.Jail{} // for one that was not accepted, the value is only checked
			if i := slices.IndexFunc(jails, func(j detector.Jail) bool { return j.Name == owners[0] }); i >= 0 {
				jail = &jails[i]
			}
			n.overrideJail(jail, prefix)
		}
	}
}

// overrideJail sets the value the variable is for in j.
func (n node) overrideJail(j *detector.Jail, prefix string) {
	if prefix == envBan {
		j.Ban = n.ladder()
		return
	}
	if v, err := strconv.ParseInt(n.v.(string), 10, 64); err == nil {
		n.v = v
	}
	j.Limit = n.limit()
}

func suggestVariable(prefix, suffix string, suffixes []string) string {
	lower := make([]string, len(suffixes))
	for i, s := range suffixes {
		lower[i] = strings.ToLower(s)
	}
	if near, ok := nearest(suffix, lower); ok {
		return ", did you mean " + prefix + strings.ToUpper(near) + "?"
	}
	return ""
}

// envSuffix is the part of a variable's name that stands for a jail.
func envSuffix(jail string) string {
	return strings.ToUpper(strings.ReplaceAll(jail, "-", "_"))
}

// envNames returns the names of the variables that are meant to override
// something, each once, sorted.
func envNames(env []string) []string {
	var out []string
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, envOurs) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lookupEnv returns the value of a variable; where a name occurs twice the
// last one counts.
func lookupEnv(env []string, name string) (value string, ok bool) {
	for _, e := range env {
		if k, v, found := strings.Cut(e, "="); found && k == name {
			value, ok = v, true
		}
	}
	return value, ok
}

// envNode makes a node of a variable, so that it passes the same checks.
func envNode(doc *document, name, value string) node {
	return node{doc: doc, at: Problem{Key: name}, v: value}
}
