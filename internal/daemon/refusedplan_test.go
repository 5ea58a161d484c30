package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tailban/tailban/state"
)

// A file that nobody will read is not waited for: the lines of all others would be.
func TestRefusedFilesAreNotWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		mode     os.FileMode
		more     string // of the log
		other    string // files of a log that comes first
		renamed  bool
		finished bool
		waits    bool
	}{
		"as it was":                       {mode: 0o644, waits: true},
		"strangers can write":             {mode: 0o666},
		"and may":                         {mode: 0o666, more: "allow_insecure = true\n", waits: true},
		"strangers can write, rotated":    {mode: 0o666, renamed: true},
		"rotated":                         {mode: 0o644, renamed: true, waits: true},
		"strangers can write, finished":   {mode: 0o666, renamed: true, finished: true},
		"finished":                        {mode: 0o644, renamed: true, finished: true, waits: true},
		"another log's":                   {mode: 0o644, other: "a*.log"},
		"the folder holds another log's":  {mode: 0o644, other: "b*.log", waits: true},
		"of a name that is another log's": {mode: 0o644, other: "a*.log", renamed: true, waits: true},
	} {
		dir := t.TempDir()
		if tt.other == "" {
			tt.other = "none.log"
		}
		c := parse(t, fmt.Sprintf("[logs.first]\nfiles = %q\nformat = \"combined\"\n[logs.site]\nfiles = %q\nformat = \"combined\"\n%s[jails.web]\nlimit = 1\nwindow = \"60s\"\nban = \"1h\"\n[actions.report]\ntype = \"log\"\n",
			filepath.Join(dir, tt.other), filepath.Join(dir, "*.log"), tt.more))
		path := filepath.Join(dir, "access.log")
		w := write(t, path, []string{line(one, time.Now()), line(one, time.Now())})
		check(t, os.Chmod(path, tt.mode))
		if tt.renamed {
			check(t, os.Rename(path, path+".1"))
		}
		was, now := state.Position(w.batch(0, int64(w.ends[0])).Position), state.Position(w.batch(0, int64(w.ends[1])).Position)
		l := &state.Loaded{Positions: []state.Position{now}, Notes: []state.Note{{N: 7, What: state.NoteSnapshot}}}
		if tt.finished {
			l.Positions = nil
			l.Notes = append(l.Notes, state.Note{N: 8, What: state.NoteFinished, Reached: []state.Reached{{Log: now.Log, Dev: now.Dev, Ino: now.Ino, Offset: now.Offset}}})
		}
		p, err := planReread(c, &state.Windows{Positions: []state.Position{was}, Mark: 7}, l, lookFor)
		check(t, err)
		if waits := len(p.files) == 1; waits != tt.waits || (p.lost == 0) != tt.waits {
			t.Errorf("%s: %d files are waited for, %d are lost", name, len(p.files), p.lost)
		}
		if !tt.waits && !tt.finished && (len(p.resume) != 1 || p.resume[0] != now) {
			t.Errorf("%s: read on from %+v, want %+v", name, p.resume, now)
		}
	}
}
