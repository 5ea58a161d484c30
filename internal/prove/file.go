package prove

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/internal/sleep"
	"github.com/tailban/tailban/internal/wholefile"
)

const (
	// maxFile is how large a file may be that is read: more than all that are
	// proved take.
	maxFile = 16 << 20

	// saveEvery is how far apart two writings of the file are at least.
	saveEvery = time.Minute
)

// The file is the JSON of a []stored. Only who is proved is in it: a start must
// not have to find out again who is wanted before it bans.

// stored is a client that is proved.
type stored struct {
	Client netip.Addr `json:"client"`
	Names  []string   `json:"names"`
	Until  time.Time  `json:"until"`
}

// remember has an answer stored. When there are too many, those go that end
// soonest.
func (p *Prover) remember(a *detector.Answer) {
	p.proved[a.Client] = stored{a.Client, a.Names, time.Unix(0, a.Until).UTC()}
	p.saved = false
	if len(p.proved) <= detector.MaxProved+detector.MaxProved/10 {
		return
	}
	p.keepOnly(p.list(time.Now()))
}

func (p *Prover) keepOnly(list []stored) {
	clear(p.proved)
	for _, s := range list {
		p.proved[s.Client] = s
	}
}

// list returns those that hold, at most MaxProved, the latest first.
func (p *Prover) list(now time.Time) []stored {
	list := slices.SortedFunc(maps.Values(p.proved), func(a, b stored) int {
		return cmp.Or(b.Until.Compare(a.Until), a.Client.Compare(b.Client))
	})
	list = slices.DeleteFunc(list, func(s stored) bool { return !s.Until.After(now) })
	return list[:min(len(list), detector.MaxProved)]
}

// Load returns the answers of an earlier run that still hold. A file that is not
// there is none; after any other error there are none, and Run will replace the
// file.
func (p *Prover) Load() ([]detector.Answer, error) {
	now := time.Now()
	text, err := wholefile.Read(p.opt.File, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []stored
	if err == nil {
		list, err = decode(text)
	}
	if err != nil {
		return nil, fmt.Errorf("read who has proved to be a wanted machine: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range list {
		if latest := now.Add(ProvedFor); s.Until.After(latest) { // the clock was another
			s.Until = latest.UTC()
		}
		p.proved[s.Client] = s
	}
	p.keepOnly(p.list(now))
	var out []detector.Answer
	for _, s := range p.proved {
		out = append(out, detector.Answer{
			Question: detector.Question{Client: s.Client}, Result: detector.Proved, Names: s.Names, Until: s.Until.UnixNano(),
		})
	}
	return out, nil
}

// decode reads what encode writes. What could not be an answer is left out.
func decode(text []byte) ([]stored, error) {
	var list []stored
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(s stored) bool {
		return !s.Client.IsValid() || s.Client.Zone() != "" || s.Client.Is4In6() ||
			len(s.Names) == 0 || len(s.Names) > maxNames || slices.ContainsFunc(s.Names, func(n string) bool { return !isName(n) })
	}), nil
}

func encode(list []stored) ([]byte, error) {
	if list == nil {
		list = []stored{}
	}
	text, err := json.MarshalIndent(list, "", "\t")
	return append(text, '\n'), err
}

// keepSaved writes the file now and then, if something has changed, until the
// context is done, and then once more.
func (p *Prover) keepSaved(ctx context.Context) {
	for sleep.For(ctx, saveEvery) {
		p.save()
	}
	p.save()
}

// save says once that it fails, and once that it works again.
func (p *Prover) save() {
	p.mu.Lock()
	saved, list := p.saved, p.list(time.Now())
	p.saved = true
	p.mu.Unlock()
	if saved {
		return
	}
	text, err := encode(list)
	if err == nil {
		err = wholefile.Write(p.opt.File, text)
	}
	switch {
	case err != nil && !p.unsafe:
		p.opt.Log.Warn("who has proved to be a wanted machine can't be stored: after a restart it is looked up again", slog.Any("err", err))
	case err == nil && p.unsafe:
		p.opt.Log.Info("who has proved to be a wanted machine is stored again", slog.String("path", p.opt.File))
	}
	if p.unsafe = err != nil; p.unsafe {
		p.mu.Lock()
		p.saved = false
		p.mu.Unlock()
	}
}
