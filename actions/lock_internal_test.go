//go:build linux

package actions

import "testing"

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
