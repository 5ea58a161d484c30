package resolve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/tailban/tailban/internal/wholefile"
)

// maxFile is how large a file may be that is read: more than all names with
// all their addresses take.
const maxFile = 1 << 20

// The file is the JSON of a []Host.

// Load takes up the last good addresses of an earlier run, of names that are
// still asked for. A file that is not there is none; after any other error
// nothing is taken up, and Run will replace the file.
func (h *Hosts) Load() error {
	text, err := wholefile.Read(h.opt.File, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the last addresses of host names: %w", err)
	}
	stored, err := decode(text)
	if err != nil {
		return fmt.Errorf("read the last addresses of host names from %s: %w", h.opt.File, err)
	}
	h.stored = stored
	for _, n := range h.names {
		if i := slices.IndexFunc(stored, func(s Host) bool { return s.Name == n.Name }); i >= 0 {
			n.Addresses = stored[i].Addresses
		}
	}
	return nil
}

// decode reads what encode writes, and what else is JSON of that form.
func decode(text []byte) ([]Host, error) {
	var hosts []Host
	if err := json.Unmarshal(text, &hosts); err != nil {
		return nil, err
	}
	for i := range hosts {
		found := tidy(hosts[i].Addresses)
		hosts[i].Addresses = found[:min(len(found), MaxAddresses)]
	}
	return hosts, nil
}

func encode(hosts []Host) ([]byte, error) {
	text, err := json.MarshalIndent(hosts, "", "\t")
	return append(text, '\n'), err
}

// save writes what is known, if the file holds something else. A failure is
// said once, and tried again at the next round.
func (h *Hosts) save() {
	known := h.Known()
	if slices.EqualFunc(known, h.stored, func(a, b Host) bool { return a.Name == b.Name && slices.Equal(a.Addresses, b.Addresses) }) {
		return
	}
	text, err := encode(known)
	if err == nil {
		err = wholefile.Write(h.opt.File, text)
	}
	if err != nil {
		if !h.unsafe {
			h.opt.Log.Warn("addresses of host names can't be stored: after a restart they are unknown until they are looked up", slog.Any("err", err))
		}
		h.unsafe = true
		return
	}
	if h.unsafe {
		h.opt.Log.Info("addresses of host names are stored again", slog.String("path", h.opt.File))
	}
	h.unsafe, h.stored = false, known
}
