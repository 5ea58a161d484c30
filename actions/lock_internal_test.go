//go:build linux

package actions

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

// What is open when a program is started stays so until it runs: a lock that was
// given back meanwhile is not held any more.
func TestLockGivenBackWhileAProgramStarts(t *testing.T) {
	name := fmt.Sprintf("test/%d", os.Getpid())
	first, err := lock(name, "it", "")
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := first.listeners[0].(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(lockPause/2, func() { inherited.Close() })
	again, err := lock(name, "it", "")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Warning() != "" {
		t.Error(again.Warning())
	}
}

func TestHasNetAdmin(t *testing.T) {
	for _, c := range []struct {
		name, status string
		want         bool
	}{
		{"the capability alone", "Name:\ttailban\nUid:\t998\t998\t998\t998\nCapPrm:\t0000000000001000\nCapEff:\t0000000000001000\n", true},
		{"none in effect", "Uid:\t998\t998\t998\t998\nCapPrm:\t0000000000001000\nCapEff:\t0000000000000000\n", false},
		{"a setuid program that its user has begun", "Uid:\t998\t0\t0\t0\nCapEff:\t000001ffffffffff\n", false},
		{"another user", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n", false},
		{"cut short", "Uid:\t998\nCapEff:\t0000000000001000\n", false},
		{"not of this kernel", "CapEff:\t0000000000001000\n", false},
	} {
		if got := hasNetAdmin(c.status, 998); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
