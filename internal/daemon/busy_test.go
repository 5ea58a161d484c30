package daemon

import "testing"

// Two daemons with a state folder each would undo each other's bans in one
// table.
func TestSecondDaemonOnOneTableIsRefused(t *testing.T) {
	t.Parallel()
	l := newKernelLab(t)
	first := l.daemon(l.config(firewalled))

	l.state += "-2"
	second := l.child(l.config(firewalled), false)
	if err := second.wait(); err == nil {
		t.Error("the second daemon has ended without an error")
	}
	if got := second.output.String(); got != busy {
		t.Errorf("the second daemon says %q, want %q", got, busy)
	}

	l.requests("192.0.2.1", 1)
	l.waitHeld("192.0.2.1")
	first.stop()
}
