package daemon

import (
	"testing"
	"time"
)

// A few lines that don't parse are said once an hour, with their file.
func TestUnparsedLinesAreSaid(t *testing.T) {
	const unparsed = "lines don't parse, so no jail sees them (tailban probe shows which)"
	r := newRig(t, start{config: web, actions: []string{"firewall"}})
	r.upkeep(r.now)
	r.journal.want(t, 0, unparsed)
	for range 3 {
		r.batch(r.lines("half a line\n", line("192.0.2.1", r.now)), r.now)
		r.upkeep(r.now)
		r.now = r.now.Add(10 * time.Second)
	}
	r.journal.want(t, 1, unparsed, "log", "site", "file", "/var/log/site.log", "since_last", 1)
	r.now = r.now.Add(time.Hour)
	r.upkeep(r.now)
	r.journal.want(t, 1, unparsed, "since_last", 2, "total", 3)
}
