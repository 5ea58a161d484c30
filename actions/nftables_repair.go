//go:build linux

package actions

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// held is what our table really is.
type held struct {
	table   *nftables.Table // nil: not there
	chain   *nftables.Chain // nil: not there
	sets    map[string]*nftables.Set
	rules   []string     // their comments, in order
	exprs   [][]expr.Any // of the rules
	allowed map[string][]nftables.SetElement
}

// tableState says what is to be done about the table as such.
type tableState int

const (
	tableRight   tableState = iota
	tableMissing            // make it
	tableWrong              // delete it and make it: a set cannot be changed, only made again
)

// repair is what has to change, and why.
type repair struct {
	found []string // for people

	table tableState // unless tableRight, everything in it is made
	wake  bool       // the table is there but has been switched off
	adopt bool       // the table is there, is to be protected, and nobody owns it
	chain bool       // delete the chain, if it is there, and make it with its rules
	gone  bool       // the chain is not there
	rules bool       // replace all rules
	sets  []string   // sets to make
	allow bool       // replace what is allowed

	flags nftables.TableFlags // that the table gets if it is woken or adopted
}

func (f *repair) nothing() bool { return len(f.found) == 0 && !f.adopt }

func (f *repair) because(format string, args ...any) {
	f.found = append(f.found, fmt.Sprintf(format, args...))
}

// inspect reads our table, and nothing else.
func inspect(c *nftables.Conn, want *ruleset) (*held, error) {
	h := &held{sets: map[string]*nftables.Set{}, allowed: map[string][]nftables.SetElement{}}
	var err error
	if h.table, err = findTable(c, want.table.Name); err != nil || h.table == nil {
		return h, err
	}
	sets, err := c.GetSets(want.table)
	if err != nil {
		return nil, fmt.Errorf("sets: %w", err)
	}
	for _, s := range sets {
		h.sets[s.Name] = s
	}
	for _, s := range []*nftables.Set{want.allow4, want.allow6} {
		if h.sets[s.Name] == nil {
			continue
		}
		if h.allowed[s.Name], err = c.GetSetElements(s); err != nil {
			return nil, fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	return h, h.inspectChain(c, want)
}

func (h *held) inspectChain(c *nftables.Conn, want *ruleset) error {
	var err error
	h.chain, err = c.ListChain(want.table, want.chain.Name)
	if errors.Is(err, unix.ENOENT) {
		h.chain = nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("chain %s: %w", want.chain.Name, err)
	}
	rules, err := c.GetRules(want.table, want.chain)
	if err != nil {
		return fmt.Errorf("rules of chain %s: %w", want.chain.Name, err)
	}
	for _, r := range rules {
		comment, _ := userdata.GetString(r.UserData, userdata.TypeComment)
		h.rules = append(h.rules, comment)
		h.exprs = append(h.exprs, r.Exprs)
	}
	return nil
}

// findTable returns nil if there is no such table of family inet.
func findTable(c *nftables.Conn, name string) (*nftables.Table, error) {
	t, err := c.ListTableOfFamily(name, nftables.TableFamilyINet)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return t, err
}

// compare says what has to change for have to become what it should be.
func (r *ruleset) compare(have *held) repair {
	var fix repair
	if have.table == nil {
		fix.table = tableMissing
		fix.because("no table")
		return fix
	}
	if have.table.Flags&nftables.TableFlagDormant != 0 {
		fix.wake = true
		fix.because("table is switched off (dormant)")
	}
	r.compareProtection(have, &fix)
	r.compareSets(have, &fix)
	if fix.table == tableRight {
		r.compareChain(have, &fix)
	}
	return fix
}

func (r *ruleset) compareSets(have *held, fix *repair) {
	for _, want := range r.sets() {
		got := have.sets[want.Name]
		if got == nil {
			fix.sets = append(fix.sets, want.Name)
			fix.because("no set %s", want.Name)
			continue
		}
		if !sameSet(want, got) {
			fix.table = tableWrong
			fix.because("set %s is of another type", want.Name)
			continue
		}
		if elements, ok := r.allowed[want.Name]; ok && !sameElements(elements, have.allowed[want.Name]) {
			fix.allow = true
			fix.because("set %s differs", want.Name)
		}
	}
	// A set that is missing was bound to no rule: the rules are not ours
	// either, or else not there.
	fix.rules = len(fix.sets) > 0
	fix.allow = fix.allow || len(fix.sets) > 0
}

func (r *ruleset) compareChain(have *held, fix *repair) {
	if have.chain == nil {
		fix.chain, fix.gone = true, true
		fix.because("no chain %s", r.chain.Name)
		return
	}
	if !sameChain(r.chain, have.chain) {
		fix.chain = true
		fix.because("chain %s has another type, hook, priority or policy", r.chain.Name)
		return
	}
	comments := make([]string, len(r.rules))
	for i := range r.rules {
		comments[i] = r.rules[i].comment
	}
	// A comment is easily kept by whoever changes a rule, and the kernel keeps
	// the handle. Rules that we have not made ourselves are made once more.
	switch {
	case !slices.Equal(comments, have.rules):
		fix.because("rules of chain %s differ", r.chain.Name)
	case len(r.installed) == 0:
		fix.because("rules of chain %s are those of an earlier process", r.chain.Name)
	case !reflect.DeepEqual(r.installed, have.exprs):
		fix.because("rules of chain %s were changed", r.chain.Name)
	default:
		return
	}
	fix.rules = true
}

func sameSet(want, got *nftables.Set) bool {
	return want.KeyType.Name == got.KeyType.Name &&
		want.HasTimeout == got.HasTimeout &&
		want.Interval == got.Interval &&
		want.Size == got.Size &&
		want.Timeout == got.Timeout &&
		want.Comment == got.Comment &&
		!got.IsMap && !got.Constant && !got.Dynamic && !got.Concatenation
}

func sameChain(want, got *nftables.Chain) bool {
	return want.Type == got.Type &&
		got.Hooknum != nil && *want.Hooknum == *got.Hooknum &&
		got.Priority != nil && *want.Priority == *got.Priority &&
		got.Policy != nil && *want.Policy == *got.Policy
}

// sameElements compares interval ends, which come in any order.
func sameElements(want, got []nftables.SetElement) bool {
	if len(want) != len(got) {
		return false
	}
	want, got = slices.SortedFunc(slices.Values(want), byKey), slices.SortedFunc(slices.Values(got), byKey)
	return slices.EqualFunc(want, got, func(a, b nftables.SetElement) bool { return byKey(a, b) == 0 })
}

// install queues what fix asks for; the caller flushes it as one transaction,
// so that packets see the ruleset before or after and nothing in between.
func (r *ruleset) install(c *nftables.Conn, fix repair) error {
	if fix.table != tableRight {
		if fix.table == tableWrong {
			c.DelTable(r.table)
		}
		fix = repair{table: fix.table, wake: true, flags: r.table.Flags, chain: true, gone: true, allow: true}
		for _, s := range r.sets() {
			fix.sets = append(fix.sets, s.Name)
		}
	}
	if fix.wake || fix.adopt {
		c.AddTable(&nftables.Table{Name: r.table.Name, Family: r.table.Family, Flags: fix.flags})
	}
	if err := r.installSets(c, fix); err != nil {
		return err
	}
	if fix.chain && !fix.gone {
		c.FlushChain(r.chain)
		c.DelChain(r.chain)
	}
	if fix.chain {
		c.AddChain(r.chain)
	}
	if fix.rules && !fix.chain {
		c.FlushChain(r.chain)
	}
	if fix.rules || fix.chain {
		return r.installRules(c)
	}
	return nil
}

func (r *ruleset) installSets(c *nftables.Conn, fix repair) error {
	for _, s := range r.sets() {
		if slices.Contains(fix.sets, s.Name) {
			if err := c.AddSet(s, nil); err != nil {
				return fmt.Errorf("define set %s: %w", s.Name, err)
			}
		}
	}
	if !fix.allow {
		return nil
	}
	for _, s := range []*nftables.Set{r.allow4, r.allow6} {
		c.FlushSet(s)
		if err := c.SetAddElements(s, r.allowed[s.Name]); err != nil {
			return fmt.Errorf("fill set %s: %w", s.Name, err)
		}
	}
	return nil
}

func (r *ruleset) installRules(c *nftables.Conn) error {
	for i := range r.rules {
		exprs, err := r.rules[i].bind(c, r.table)
		if err != nil {
			return fmt.Errorf("define rule %q: %w", r.rules[i].comment, err)
		}
		c.AddRule(&nftables.Rule{
			Table: r.table, Chain: r.chain,
			Exprs: exprs, UserData: r.rules[i].userData(),
		})
	}
	return nil
}

// bind makes the anonymous sets of a rule and returns all its expressions.
func (r *rule) bind(c *nftables.Conn, t *nftables.Table) ([]expr.Any, error) {
	var exprs []expr.Any
	for _, m := range r.match {
		if len(m.values) == 1 {
			exprs = append(exprs, m.load, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: m.values[0]})
			continue
		}
		set := &nftables.Set{Table: t, Anonymous: true, Constant: true, KeyType: m.datatype}
		elements := make([]nftables.SetElement, len(m.values))
		for i, v := range m.values {
			elements[i].Key = v
		}
		if err := c.AddSet(set, elements); err != nil {
			return nil, err
		}
		exprs = append(exprs, m.load, &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID})
	}
	return append(exprs, r.exprs...), nil
}
