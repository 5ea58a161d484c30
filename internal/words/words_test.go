package words

import (
	"net/netip"
	"testing"
)

func TestTarget(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1/32": "192.0.2.1", "192.0.2.0/24": "192.0.2.0/24", "2001:db8::1/128": "2001:db8::1", "2001:db8::/64": "2001:db8::/64",
	} {
		if got := Target(netip.MustParsePrefix(in)); got != want {
			t.Errorf("%s is written %q", in, got)
		}
	}
	if got := Target(netip.Prefix{}); got != "" {
		t.Errorf("no target is written %q", got)
	}
}

func TestThousands(t *testing.T) {
	for in, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1234567: "1,234,567"} {
		if got := Thousands(in); got != want {
			t.Errorf("%d is written %q", in, got)
		}
	}
}

func TestPlural(t *testing.T) {
	for in, want := range map[int]string{0: "0 bans", 1: "1 ban", 2: "2 bans", 1200: "1,200 bans"} {
		if got := Plural(in, "ban"); got != want {
			t.Errorf("%d is written %q", in, got)
		}
	}
}
