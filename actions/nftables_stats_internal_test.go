//go:build linux

package actions

import "testing"

// Who asks for the counts doesn't wait for a kernel that is slow to answer.
func TestNftablesCountsWaitForNothing(t *testing.T) {
	n := NewNftables(NftablesOptions{})
	n.mu.Lock() // as while it is asked
	if got := n.Repairs(); got != 0 {
		t.Errorf("%d repairs", got)
	}
	n.mu.Unlock()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
