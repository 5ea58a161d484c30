package daemon

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// docker wraps lines as the runtime does.
func docker(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "{\"log\":%q,\"stream\":\"stdout\",\"time\":\"2026-03-12T08:00:00.1Z\"}\n", l)
	}
	return b.String()
}

// Wrapped lines are counted, banned for, found again as evidence, and go on to
// be counted after a restart.
func TestWrappedLines(t *testing.T) {
	t.Parallel()
	s := newSite(t, t.TempDir())
	config := s.config("container = \"docker\"\n" + logOnly)
	r := newReloadableAt(t, s, config)
	one := line("203.0.113.201", time.Now())
	s.write(docker(one, one, one))
	r.waitBanned("203.0.113.201")
	two := line("203.0.113.202", time.Now())
	s.write(docker(two, two, "garbage\n"))
	wait(t, "the lines to be counted", func() bool {
		st, err := r.client.Status(t.Context())
		return err == nil && st.Logs[0].Lines == 6
	})
	x, err := r.client.Explain(t.Context(), netip.MustParseAddr("203.0.113.201"))
	check(t, err)
	if len(x.Evidence) != 3 || x.Evidence[2].Step != "crossed the limit" || x.Evidence[2].Offset != int64(2*len(docker(one))) {
		t.Errorf("evidence: %+v", x.Evidence)
	}
	r.stop()

	r = newReloadableAt(t, s, config)
	s.write(docker(two))
	r.waitBanned("203.0.113.202")
	r.journal.want(t, 0, "banned", "client", "203.0.113.201")
	r.stop()
}
