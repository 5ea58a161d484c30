package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Check says why a ban can't be stored, or nil.
func (b *Ban) Check() error {
	if err := checkPrefix(b.Target); err != nil {
		return err
	}
	if len(b.Owners) == 0 {
		return fmt.Errorf("ban of %s has no owner", b.Target)
	}
	for i := range b.Owners {
		o := &b.Owners[i]
		if err := checkName("jail", o.Jail); err != nil {
			return fmt.Errorf("ban of %s: %w", b.Target, err)
		}
		if err := checkTimes(o.Since, o.Until, o.Event); err != nil {
			return fmt.Errorf("ban of %s by %s: %w", b.Target, o.Jail, err)
		}
	}
	return nil
}

// Check says why an offence can't be stored, or nil.
func (o *Offence) Check() error {
	if err := o.Key().check(); err != nil {
		return err
	}
	return checkTimes(o.Last)
}

// Check says why a position can't be stored, or nil.
func (p *Position) Check() error {
	return p.Key().check()
}

// checkTimes accepts the years that RFC 3339, and so JSON, can write.
func checkTimes(times ...time.Time) error {
	for _, t := range times {
		if y := t.UTC().Year(); y < 0 || y > 9999 {
			return fmt.Errorf("time lies in year %d", y)
		}
	}
	return nil
}

// utc writes all times of a ban in the same zone: the stored form should not
// depend on where the daemon runs, nor on an offset RFC 3339 can't express.
func (b *Ban) utc() Ban {
	c := b.Clone()
	for i := range c.Owners {
		o := &c.Owners[i]
		o.Since, o.Until, o.Event = o.Since.UTC(), o.Until.UTC(), o.Event.UTC()
	}
	return c
}

// checked is what is stored.
type checked[T any] interface {
	*T
	Check() error
}

// ending is what is stored and has an end.
type ending[T any] interface {
	checked[T]
	limitTo(now time.Time) // makes the time left at most the length
	runs(now time.Time) bool
}

// decode turns a stored record into its checked value. It fails too if the
// record stands under another key than its own.
func decode[T any, P checked[T]](r record, keyOf func(P) []byte) (T, error) {
	var v, zero T
	payload, err := unseal(r.bucket, r.key, r.value)
	if err != nil {
		return zero, err
	}
	if err := json.Unmarshal(payload, &v); err != nil {
		return zero, err
	}
	if err := P(&v).Check(); err != nil {
		return zero, err
	}
	if !bytes.Equal(keyOf(&v), r.key) {
		return zero, errors.New("record stands under the key of another")
	}
	return v, nil
}

func banKey(b *Ban) []byte           { return appendPrefix(nil, b.Target) }
func offenceKey(o *Offence) []byte   { return o.Key().appendTo(nil) }
func positionKey(p *Position) []byte { return p.Key().appendTo(nil) }

func pardonKey(p *Pardon) []byte       { return p.Key().appendTo(nil) }
func allowanceKey(a *Allowance) []byte { return appendPrefix(nil, a.Target) }
func holdKey(h *Hold) []byte           { return []byte(h.Jail) }
