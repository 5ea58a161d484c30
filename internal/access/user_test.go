package access

import (
	"slices"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, tt := range []struct {
		who    string
		groups []string
		uid    uint32
		want   []uint32
	}{
		{"root", nil, 0, []uint32{0}},
		{"0", nil, 0, []uint32{0}},
		{"0", []string{"0", "root", "65003"}, 0, []uint32{0, 65003}},
		{"65001", nil, 65001, []uint32{65001}}, // not known
		{"65001", []string{"65002", "root"}, 65001, []uint32{65001, 65002, 0}},
	} {
		u, err := Lookup(tt.who, tt.groups)
		if err != nil {
			t.Fatal(err)
		}
		if u.UID != tt.uid || !slices.Equal(u.Groups[:1], tt.want[:1]) || !containsAll(u.Groups, tt.want) {
			t.Errorf("%s %v: %+v, want user %d with the groups %v", tt.who, tt.groups, u, tt.uid, tt.want)
		}
	}
	for who, want := range map[string]string{"no-such-user": `there is no user "no-such-user": that of our unit is made by systemd-sysusers`, "-1": `there is no user "-1"`, "4294967296": "there is no user"} {
		if _, err := Lookup(who, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", who, err)
		}
	}
	if _, err := Lookup("root", []string{"no-such-group"}); err == nil || err.Error() != `there is no group "no-such-group"` {
		t.Errorf("%v", err)
	}
}

func containsAll(have, want []uint32) bool {
	for _, id := range want {
		if !slices.Contains(have, id) {
			return false
		}
	}
	return true
}
