package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of how often an action is compared with what should be in force.
const (
	minReconcile     = time.Second
	minEdgeReconcile = time.Minute
	maxReconcile     = time.Hour
)

// Bounds of how many members make a network be banned as one.
const minMerge, maxMerge = 2, 256

// actionKeys says which types of actions have a key.
func actionKeys() map[string][]string {
	filters, programs, edge := []string{TypeNftables, TypeIptables}, []string{TypeCommand}, []string{TypeCloudflare}
	return map[string][]string{
		"ports": filters, "verdict": filters, "cut_connections": filters, "reconcile": append(filters, TypeCommand, TypeCloudflare),
		"ban": programs, "unban": programs, "check": programs, "list": {TypeCommand, TypeCloudflare}, "list_target": programs, "list_seconds": programs,
		"expires": programs, "batch": programs, "timeout": programs, "concurrency": programs,
		"table": {TypeNftables}, "protect_table": {TypeNftables}, "merge": {TypeNftables},
		"account": edge, "token_file": edge, "create_list": edge, "instance": edge, "api_base": edge,
		"mode": edge, "zones": edge, "lease": edge, "rule_action": edge,
		"sync_every": edge, "capacity": edge, "requests": edge, "changes": edge,
		"chain": {TypeIptables}, "sets": {TypeIptables}, "variant": {TypeIptables},
	}
}

// readActions reads the [actions.NAME] tables; without any there is one that
// logs. names are those of the bad ones, too.
func readActions(top *section, env []string) (actions []Action, names []string) {
	tables, names := top.group("actions", "")
	if len(names) == 0 {
		return []Action{{Name: TypeLog, Type: TypeLog}}, []string{TypeLog}
	}
	owners := map[string]string{}
	for _, t := range tables {
		a := Action{Name: t.name}
		types := []string{TypeNftables, TypeIptables, TypeCommand, TypeCloudflare, TypeLog}
		if n, ok := t.get("type"); ok {
			if n.v == "webhook" {
				n.bad("enforces nothing, so it is no action: [notify.NAME] is for webhooks")
				actions = append(actions, a)
				continue
			}
			a.Type, ok = n.oneOf(types...)
			if !ok {
				a.Type = ""
			}
		} else {
			t.missing("type", "required: %s", orList(types))
		}
		if a.Type == "" { // reported; which keys it may have is unknown
			actions = append(actions, a)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(actionKeys())) {
			if types := actionKeys()[key]; !slices.Contains(types, a.Type) {
				if n, ok := t.get(key); ok {
					n.bad("is for type = %s only", orList(types))
				}
			}
		}
		if a.Kernel() {
			readFilter(t, &a)
		}
		switch a.Type {
		case TypeNftables:
			readNftables(t, &a, owners)
		case TypeIptables:
			readIptables(t, &a, owners)
		case TypeCommand:
			readReconcile(t, &a)
			readCommand(t, &a, owners)
		case TypeCloudflare:
			readCloudflare(t, &a, env, owners)
		}
		t.finish()
		actions = append(actions, a)
	}
	for i := range actions {
		for j := range actions {
			if i != j && actions[i].Type == TypeIptables && actions[j].Type == TypeIptables {
				actions[i].Siblings = append(actions[i].Siblings, actions[j].Chain)
			}
		}
	}
	return actions, names
}

// orList is texts in quotes: "a", "b" or "c".
func orList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = strconv.Quote(s)
	}
	if n := len(quoted) - 1; n > 0 {
		return strings.Join(quoted[:n], ", ") + " or " + quoted[n]
	}
	return quoted[0]
}

// readFilter reads what all packet filters have in common.
func readFilter(t named, a *Action) {
	a.Ports = []uint16{80, 443}
	if n, ok := t.get("ports"); ok {
		a.Ports, a.AllPorts = n.ports()
	}
	if n, ok := t.get("verdict"); ok {
		v, _ := n.oneOf(VerdictDrop, VerdictReject)
		a.Reject = v == VerdictReject
	}
	readReconcile(t, a)
	if n, ok := t.get("cut_connections"); ok {
		a.CutConnections, _ = n.flag()
	}
}

// readReconcile reads how often an action is compared with what it should hold.
func readReconcile(t named, a *Action) {
	a.Reconcile = DefaultReconcile
	if n, ok := t.get("reconcile"); ok {
		a.Reconcile, _ = n.duration(minReconcile, maxReconcile)
	}
}

// readNftables reads what is particular to nftables. owners says which action
// has taken a table.
func readNftables(t named, a *Action, owners map[string]string) {
	a.Table = DefaultTable
	at := t.path
	if n, ok := t.get("table"); ok {
		at = n.path
		if s, ok := n.text(); ok {
			a.Table = s
			if !isTable(s) {
				n.bad("must be 1 to 31 lower-case letters, digits and _, not beginning with a digit")
			}
		}
	}
	t.own(at, "table", a.Table, a.Name, owners)
	if n, ok := t.get("protect_table"); ok {
		a.Protect, _ = n.flag()
	}
	if n, ok := t.get("merge"); ok {
		a.Merge = n.merge()
	}
}

// maxChain is how long the names of chains and the beginnings of those of sets
// may be: more is put behind them, and the kernel has room for 28 and 31.
const maxChain = 24

// readIptables reads what is particular to iptables.
func readIptables(t named, a *Action, owners map[string]string) {
	a.Chain, a.Sets = DefaultChain, DefaultSets
	atChain, atSets := t.path, t.path
	if n, ok := t.get("chain"); ok {
		atChain = n.path
		if s, ok := n.text(); ok {
			a.Chain = s
			if !isSlug(s) || len(s) > maxChain {
				n.bad("must be 1 to %d letters, digits, _ and -, beginning with a letter", maxChain)
			} else if isForeignChain(s) {
				n.bad("must be a name that neither iptables nor Docker uses: a chain of that name is made and emptied as needed")
			}
		}
	}
	if n, ok := t.get("sets"); ok {
		atSets = n.path
		if s, ok := n.text(); ok {
			a.Sets = s
			if !isSlug(s) || len(s) > maxChain {
				n.bad("must be 1 to %d letters, digits, _ and -, beginning with a letter", maxChain)
			}
		}
	}
	if t.own(atChain, "chain", a.Chain, a.Name, owners) {
		t.own(atChain, "chain", a.Chain+"-BAN", a.Name, owners) // the second one of each
	}
	t.own(atSets, "sets", a.Sets, a.Name, owners)
	if n, ok := t.get("variant"); ok {
		a.Variant, _ = n.oneOf(VariantNft, VariantLegacy)
	}
}

// own notes what an action has for itself. It reports false, and that it is bad,
// if another one has it already.
func (t named) own(at path, what, name, action string, owners map[string]string) bool {
	key := what + " " + name
	owner, taken := owners[key]
	if taken {
		t.doc.bad(at, "uses %s %q, which actions.%s uses as well", what, name, owner)
	}
	owners[key] = action
	return !taken
}

// isForeignChain reports whether a name is one of iptables' own chains and
// targets, or of Docker's chains. To keep rules of ours in there would remove
// all others.
func isForeignChain(s string) bool {
	switch s {
	case "INPUT", "FORWARD", "OUTPUT", "PREROUTING", "POSTROUTING", "ACCEPT", "DROP", "QUEUE", "RETURN", "REJECT", "LOG":
		return true
	}
	return strings.HasPrefix(s, "DOCKER")
}

// isSlug reports whether s is a name without anything that a program could take
// for something else.
func isSlug(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return s != ""
}

// merge reads of how many members a network is banned as one.
func (n node) merge() int {
	least, ok := n.whole(0, maxMerge)
	if ok && 0 < least && least < minMerge {
		n.bad("must be %d to %d, or 0: no network is banned as one", minMerge, maxMerge)
	}
	return least
}

// isTable reports whether s is a table name that nft's own language can
// write, too.
func isTable(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', c == '_':
		case i > 0 && '0' <= c && c <= '9':
		default:
			return false
		}
	}
	return 0 < len(s) && len(s) <= 31
}

// ports reads "all" or a list of port numbers.
func (n node) ports() (ports []uint16, all bool) {
	if n.v == "all" {
		return nil, true
	}
	items := n.items()
	if len(items) == 0 {
		n.bad(`must not be empty: "all" means every port`)
	}
	once := unique{}
	for _, item := range items {
		port, ok := item.v.(int64)
		switch {
		case !ok:
			item.bad(`must be a port number, or "all" in place of the list`)
		case port < 1 || port > 65535:
			item.bad("must be from 1 to 65535")
		case once.first(item, strconv.FormatInt(port, 10)):
			ports = append(ports, uint16(port))
		}
	}
	return ports, false
}
