package lists

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tailban/tailban/internal/wholefile"
)

// Dir is the name of the folder, in the state folder, with what was fetched.
const Dir = "lists"

// maxStored is how large a file of Stored may be: a few times MaxEntries.
const maxStored = 16 << 20

// magic begins a file of Stored; the SHA-256 of what follows the line is behind it.
const magic = "tailban-list-1 "

// Stored is what has been fetched of a provider, as it is kept in a file of its
// own.
type Stored struct {
	Name string `json:"name"`

	// Used are the ranges in use, nil for those that are built in, and Date the
	// day on which the publisher last had them.
	Used []netip.Prefix `json:"used,omitempty"`
	Date string         `json:"date,omitempty"`

	// Accepted are ranges that an administrator has accepted, and AcceptedOn the
	// day; nil: none yet. What is fetched is compared with them, or with what is
	// built in if that is newer: with what somebody has answered for, not with
	// what was fetched before. Else many small steps would lead anywhere.
	Accepted   []netip.Prefix `json:"accepted,omitempty"`
	AcceptedOn string         `json:"accepted_on,omitempty"`

	Latest  []Fetched `json:"latest,omitempty"`  // the last that could be used, of each source
	Checked time.Time `json:"checked,omitzero"`  // when all sources last had that
	Waiting *Waiting  `json:"waiting,omitempty"` // nil: Latest is in use
	Next    time.Time `json:"next,omitzero"`     // when the sources are asked again
	Failing *Failing  `json:"failing,omitempty"` // nil: the last attempt was good
}

// Fetched is what a source gave.
type Fetched struct {
	URL      string         `json:"url"`
	ETag     string         `json:"etag,omitempty"`
	Modified string         `json:"modified,omitempty"` // Last-Modified, as it was sent
	Ranges   []netip.Prefix `json:"ranges"`
}

// Waiting is why ranges are not used that were fetched.
type Waiting struct {
	ID    string    `json:"id"` // of the ranges: others have another one
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
}

// Failing is an attempt that came to nothing.
type Failing struct {
	Err   string    `json:"error"`
	Since time.Time `json:"since"` // of those in a row
	Times int       `json:"times"`
}

// Fresh returns all ranges that were fetched, as few as can be.
func (s *Stored) Fresh() []netip.Prefix {
	var all []netip.Prefix
	for i := range s.Latest {
		all = append(all, s.Latest[i].Ranges...)
	}
	return Tidy(all)
}

// Day writes the day of a time.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// base are the ranges that somebody has answered for.
func (s *Stored) base(built *Provider) []netip.Prefix {
	if s.Accepted != nil && s.AcceptedOn >= built.Date {
		return s.Accepted
	}
	return built.Prefixes
}

// judge returns why ranges can't be used unasked, "" if they can, and whether the
// change would be too large for any list. strict is for lists of proxies: whoever
// is in one of those is believed when he says whom a request is from, so that
// nothing is added to it unasked.
func (s *Stored) judge(built *Provider, ranges []netip.Prefix, strict bool) (why string, large bool) {
	base := s.base(built)
	c := Compare(base, ranges)
	if why = c.Large(base); why != "" {
		return why, true
	}
	if strict && len(c.Added) > 0 {
		why = "it adds to whom trusted_proxies believes"
	}
	return why, false
}

// InUse returns a provider as it is used: with what was fetched, unless what is
// built in is newer. built is what is built in.
func (s *Stored) InUse(built *Provider, strict bool) *Provider {
	p := *built
	p.Prefixes = slices.Clone(built.Prefixes)
	if s == nil {
		return &p
	}
	if s.Used != nil && s.Date >= built.Date {
		if why, _ := s.judge(built, s.Used, strict); why == "" {
			p.Prefixes, p.Date, p.Fetched = slices.Clone(s.Used), s.Date, true
			return &p
		}
	}
	if s.Accepted != nil && s.AcceptedOn >= built.Date {
		p.Prefixes, p.Date, p.Fetched = slices.Clone(s.Accepted), s.AcceptedOn, true
	}
	return &p
}

// Added returns what those ranges add that wait, to a provider as it is used, if
// they are no more than may be spared: never banned, but trusted with nothing.
func (s *Stored) Added(built, used *Provider) []netip.Prefix {
	if s == nil || s.Waiting == nil {
		return nil
	}
	fresh := s.Fresh()
	if _, large := s.judge(built, fresh, false); large {
		return nil
	}
	return Compare(used.Prefixes, fresh).Added
}

// Settle uses what was fetched, or has it wait.
func (s *Stored) Settle(built *Provider, strict bool, now time.Time) {
	if len(s.Latest) == 0 || Day(s.Checked) < built.Date {
		s.Latest, s.Waiting = nil, nil
		return
	}
	fresh := s.Fresh()
	why, _ := s.judge(built, fresh, strict)
	if why == "" {
		s.use(fresh)
		return
	}
	w := &Waiting{ID: idOf(fresh), Why: why, Since: now.UTC()}
	if s.Waiting != nil && s.Waiting.ID == w.ID {
		w.Since = s.Waiting.Since
	}
	s.Waiting = w
}

func (s *Stored) use(fresh []netip.Prefix) {
	s.Used, s.Date, s.Waiting = fresh, Day(s.Checked), nil
}

// Accept uses what waits, which has an administrator's word from now on.
func (s *Stored) Accept(now time.Time) {
	s.use(s.Fresh())
	s.Accepted, s.AcceptedOn = s.Used, max(Day(now), s.Date) // the clock may have been set back
}

// idOf names ranges, for a person to tell them from others.
func idOf(ranges []netip.Prefix) string {
	h := sha256.New()
	for _, p := range ranges {
		fmt.Fprintln(h, p)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// Load reads what is stored of a provider. It is nil if nothing is.
func Load(stateDir, name string) (*Stored, error) {
	path := filepath.Join(stateDir, Dir, name+".json")
	data, err := wholefile.Read(path, maxStored)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if info, e := os.Lstat(path); err == nil && e == nil && info.Mode().Perm()&0o022 != 0 {
		err = fmt.Errorf("others can write to %s", path)
	}
	if err != nil {
		return nil, err
	}
	s, err := decode(data)
	if err == nil && s.Name != name {
		err = fmt.Errorf("it is of %q", s.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Save keeps it. The state folder must exist.
func (s *Stored) Save(stateDir string) error {
	dir := filepath.Join(stateDir, Dir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	data, err := encode(s)
	if err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(dir, s.Name+".json"), data)
}

func encode(s *Stored) ([]byte, error) {
	body, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	return append(firstLine(body), body...), nil
}

func firstLine(body []byte) []byte {
	sum := sha256.Sum256(body)
	return []byte(magic + hex.EncodeToString(sum[:]) + "\n")
}

// decode reads what encode writes. Whoever could change the file could make its
// sum right as well, so that no range is taken from it that wouldn't be from a
// publisher.
func decode(data []byte) (*Stored, error) {
	first, body, _ := bytes.Cut(data, []byte("\n"))
	if !bytes.Equal(append(first, '\n'), firstLine(body)) {
		return nil, errors.New("it is damaged: its sum is another one")
	}
	s := &Stored{}
	if err := json.Unmarshal(body, s); err != nil {
		return nil, err
	}
	all := [][]netip.Prefix{s.Used, s.Accepted}
	for i := range s.Latest {
		all = append(all, s.Latest[i].Ranges)
	}
	for _, ranges := range all {
		if len(ranges) > MaxEntries {
			return nil, fmt.Errorf("it has %d ranges: %d at most", len(ranges), MaxEntries)
		}
		for _, p := range ranges {
			if err := Published(p); err != nil {
				return nil, err
			}
		}
	}
	for _, day := range []string{s.Date, s.AcceptedOn} {
		if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
			return nil, fmt.Errorf("%.20q is no day", day)
		}
	}
	if (len(s.Used) > 0) != (s.Date != "") || (len(s.Accepted) > 0) != (s.AcceptedOn != "") {
		return nil, errors.New("ranges without a day, or a day without ranges")
	}
	return s, nil
}
