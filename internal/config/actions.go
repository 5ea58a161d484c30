package config

import (
	"strconv"
	"time"
)

// Bounds of how often an action is compared with what should be in force.
const (
	minReconcile = time.Second
	maxReconcile = time.Hour
)

// Bounds of how many members make a network be banned as one.
const minMerge, maxMerge = 2, 256

// readActions reads the [actions.NAME] tables; without any there is one that
// logs. names are those of the bad ones, too.
func readActions(top *section) (actions []Action, names []string) {
	tables, names := top.group("actions", "")
	if len(names) == 0 {
		return []Action{{Name: TypeLog, Type: TypeLog}}, []string{TypeLog}
	}
	owners := map[string]string{}
	for _, t := range tables {
		a := Action{Name: t.name}
		if n, ok := t.get("type"); ok {
			a.Type, _ = n.oneOf(TypeNftables, TypeLog)
		} else {
			t.missing("type", `required: "%s" or "%s"`, TypeNftables, TypeLog)
		}
		switch a.Type {
		case TypeNftables:
			readNftables(t, &a, owners)
		case TypeLog:
			for _, key := range []string{"table", "ports", "reconcile", "verdict", "protect_table", "cut_connections", "merge"} {
				if n, ok := t.get(key); ok {
					n.bad("is for type = %q only", TypeNftables)
				}
			}
		default: // reported; which keys it may have is unknown
			actions = append(actions, a)
			continue
		}
		t.finish()
		actions = append(actions, a)
	}
	return actions, names
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
	if owner, taken := owners[a.Table]; taken {
		t.doc.bad(at, "uses table %q, which actions.%s uses as well", a.Table, owner)
	}
	owners[a.Table] = a.Name

	a.Ports = []uint16{80, 443}
	if n, ok := t.get("ports"); ok {
		a.Ports, a.AllPorts = n.ports()
	}
	if n, ok := t.get("verdict"); ok {
		v, _ := n.oneOf(VerdictDrop, VerdictReject)
		a.Reject = v == VerdictReject
	}
	if n, ok := t.get("protect_table"); ok {
		a.Protect, _ = n.flag()
	}
	a.Reconcile = DefaultReconcile
	if n, ok := t.get("reconcile"); ok {
		a.Reconcile, _ = n.duration(minReconcile, maxReconcile)
	}
	if n, ok := t.get("cut_connections"); ok {
		a.CutConnections, _ = n.flag()
	}
	if n, ok := t.get("merge"); ok {
		a.Merge = n.merge()
	}
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
