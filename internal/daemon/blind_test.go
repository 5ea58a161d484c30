package daemon

import (
	"strings"
	"testing"
)

func TestUnparsableLogRaisesAlarm(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	r := s.run(s.config(logOnly))
	s.write(strings.Repeat("nobody knows this format\n", enoughLines))
	wait(t, "the alarm", func() bool {
		return len(r.journal.said("most lines of this log don't parse, so its jails see little or nothing: is its format right?",
			"log", "site", "unparsed", enoughLines)) > 0
	})
}
