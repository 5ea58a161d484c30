package daemon

import "testing"

// Two daemons with a state folder each would undo each other's bans in one
// table.
func TestSecondDaemonOnOneTableIsRefused(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	l.nft("--version")
	first := l.daemon(l.config(firewalled))
	l.requests("192.0.2.9", 1)
	l.waitHeld("192.0.2.9")
	client, before := l.client(), l.untouched()

	l.state += "-2"
	second := l.child(l.config(firewalled), false)
	if err := second.wait(); err == nil {
		t.Error("the second daemon has ended without an error")
	}
	if got := second.output.String(); got != busy {
		t.Errorf("the second daemon says %q, want %q", got, busy)
	}

	if got := l.untouched(); got != before {
		t.Errorf("the table is\n%s\nand was\n%s", got, before)
	}
	s, err := client.Status(t.Context())
	check(t, err)
	if a := s.Actions[0]; !s.Healthy || a.DriftAdded+a.DriftRemoved+a.DriftCorrected+a.Repairs != 0 {
		t.Errorf("the first daemon had to repair: %+v, problems %v", a, s.Problems)
	}
	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	first.stop()
}
