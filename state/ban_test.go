package state

import (
	"reflect"
	"testing"
	"time"
)

func TestBanUntil(t *testing.T) {
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	owner := func(minutes int, actions ...string) Owner {
		return Owner{Jail: "web", Until: at(minutes), Actions: actions}
	}
	tests := []struct {
		name   string
		owners []Owner
		action string
		want   time.Time
	}{
		{"nobody", nil, "", time.Time{}},
		{"any owner", []Owner{owner(1, "a"), owner(3), owner(2, "b")}, "", at(3)},
		{"the longest that names the action", []Owner{owner(1, "a"), owner(2, "b", "a"), owner(9, "b")}, "a", at(2)},
		{"order does not matter", []Owner{owner(2, "a"), owner(1, "a")}, "a", at(2)},
		{"observe mode names no action", []Owner{owner(5)}, "a", time.Time{}},
		{"names are not prefixes", []Owner{owner(5, "ab")}, "a", time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := Ban{Owners: tt.owners}
			if got := b.Until(tt.action); !got.Equal(tt.want) {
				t.Errorf("Until(%q) = %v, want %v", tt.action, got, tt.want)
			}
		})
	}
}

func TestBanCloneSharesNothing(t *testing.T) {
	b := testBan(1)
	b.Owners[0].Sample = &Sample{Path: "/"}
	c := b.Clone()
	if !reflect.DeepEqual(b, c) {
		t.Fatalf("Clone() = %+v, want %+v", c, b)
	}
	b.Owners[0].Actions[0] = "changed"
	b.Owners[0].Jail = "changed"
	b.Owners[0].Sample.Path = "changed"
	want := testBan(1)
	want.Owners[0].Sample = &Sample{Path: "/"}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("after a change to the original the clone is %+v, want %+v", c, want)
	}
}

func TestLimitToLength(t *testing.T) {
	tests := []struct {
		name         string
		since, until time.Duration // from now
		want         time.Duration // time left
	}{
		{"running", -time.Minute, time.Hour, time.Hour},
		{"just decided", 0, time.Hour, time.Hour},
		{"ended", -2 * time.Hour, -time.Hour, -time.Hour},
		{"clock stepped back an hour", time.Hour, 2 * time.Hour, time.Hour},
		{"clock is in 1970", 60 * 365 * 24 * time.Hour, 60*365*24*time.Hour + time.Minute, time.Minute},
		{"no length at all", time.Hour, time.Hour, 0},
		{"negative length", 2 * time.Hour, time.Hour, -time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := Ban{Owners: []Owner{{Since: noon.Add(tt.since), Until: noon.Add(tt.until)}}}
			length := b.Owners[0].Until.Sub(b.Owners[0].Since)
			b.limitTo(noon)
			o := b.Owners[0]
			if got := o.Until.Sub(noon); got != tt.want {
				t.Errorf("time left = %v, want %v", got, tt.want)
			}
			if got := o.Until.Sub(o.Since); got != length {
				t.Errorf("length became %v, was %v", got, length)
			}
		})
	}
}
