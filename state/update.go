package state

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// Update is a set of changes that take effect together. Of two values with
// the same key the later in the slice counts. Removals come first: an update
// that removes a key and holds a value for it leaves the value.
type Update struct {
	Bans            []Ban
	Unbans          []netip.Prefix
	Offences        []Offence
	ForgetOffences  []OffenceKey
	Positions       []Position
	ForgetPositions []PositionKey

	Pardons          []Pardon
	ForgetPardons    []PardonKey
	Allowances       []Allowance
	ForgetAllowances []netip.Prefix
	Holds            []Hold
	ForgetHolds      []string // by jail

	Notes       []Note
	ForgetNotes []uint64 // by number
}

// Len returns how many changes the update holds.
func (u *Update) Len() int {
	return len(u.Bans) + len(u.Unbans) +
		len(u.Offences) + len(u.ForgetOffences) +
		len(u.Positions) + len(u.ForgetPositions) +
		len(u.Pardons) + len(u.ForgetPardons) +
		len(u.Allowances) + len(u.ForgetAllowances) +
		len(u.Holds) + len(u.ForgetHolds) +
		len(u.Notes) + len(u.ForgetNotes)
}

// change is one key to be written, or removed if value is nil.
type change struct {
	bucket     string
	key, value []byte
}

// changes returns the update in its stored form, or the first reason why a
// part of it has none.
func (u *Update) changes() ([]change, error) {
	e := encoder{changes: make([]change, 0, u.Len())}
	u.removals(&e)
	u.values(&e)
	return e.changes, e.err
}

func (u *Update) removals(e *encoder) {
	for _, t := range u.Unbans {
		e.remove(bucketBans, checkPrefix(t), func() []byte { return appendPrefix(nil, t) })
	}
	for _, k := range u.ForgetOffences {
		e.remove(bucketOffences, k.check(), func() []byte { return k.appendTo(nil) })
	}
	for _, k := range u.ForgetPositions {
		e.remove(bucketPositions, k.check(), func() []byte { return k.appendTo(nil) })
	}
	for _, k := range u.ForgetPardons {
		e.remove(bucketPardons, k.check(), func() []byte { return k.appendTo(nil) })
	}
	for _, t := range u.ForgetAllowances {
		e.remove(bucketAllowances, checkPrefix(t), func() []byte { return appendPrefix(nil, t) })
	}
	for _, jail := range u.ForgetHolds {
		e.remove(bucketHolds, checkName("jail", jail), func() []byte { return []byte(jail) })
	}
	for _, n := range u.ForgetNotes {
		e.remove(bucketNotes, checkNote(n), func() []byte { return noteNumber(n) })
	}
}

func (u *Update) values(e *encoder) {
	for i := range u.Bans {
		b := &u.Bans[i]
		e.put(bucketBans, b.Check(), func() ([]byte, any) { return banKey(b), b.utc() })
	}
	for i := range u.Offences {
		o := &u.Offences[i]
		e.put(bucketOffences, o.Check(), func() ([]byte, any) {
			c := *o
			c.Last = c.Last.UTC()
			return offenceKey(o), c
		})
	}
	for i := range u.Positions {
		p := &u.Positions[i]
		e.put(bucketPositions, p.Check(), func() ([]byte, any) { return positionKey(p), p })
	}
	for i := range u.Pardons {
		p := &u.Pardons[i]
		e.put(bucketPardons, p.Check(), func() ([]byte, any) { return pardonKey(p), p.utc() })
	}
	for i := range u.Allowances {
		a := &u.Allowances[i]
		e.put(bucketAllowances, a.Check(), func() ([]byte, any) { return allowanceKey(a), a.utc() })
	}
	for i := range u.Holds {
		h := &u.Holds[i]
		e.put(bucketHolds, h.Check(), func() ([]byte, any) { return holdKey(h), h.utc() })
	}
	for i := range u.Notes {
		n := &u.Notes[i]
		e.put(bucketNotes, n.Check(), func() ([]byte, any) { return noteKey(n), n.utc() })
	}
}

// encoder collects changes up to the first that can't be stored.
type encoder struct {
	changes []change
	err     error
}

// remove adds a removal; key is only asked for what has passed its check.
func (e *encoder) remove(bucket string, check error, key func() []byte) {
	if e.err != nil {
		return
	}
	if check != nil {
		e.err = fmt.Errorf("remove from %s: %w", bucket, check)
		return
	}
	e.changes = append(e.changes, change{bucket: bucket, key: key()})
}

// put adds a value; record is only asked for what has passed its check.
func (e *encoder) put(bucket string, check error, record func() (key []byte, value any)) {
	if e.err != nil {
		return
	}
	if check != nil {
		e.err = fmt.Errorf("put into %s: %w", bucket, check)
		return
	}
	key, v := record()
	payload, err := json.Marshal(v)
	if err != nil {
		e.err = fmt.Errorf("put into %s: %w", bucket, err)
		return
	}
	e.changes = append(e.changes, change{bucket: bucket, key: key, value: seal(bucket, key, payload)})
}
