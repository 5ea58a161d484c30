package config

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	known := []string{"limit", "window", "ban", "log", "actions"}
	for got, want := range map[string]string{
		"limt": "limit", "LIMIT": "limit", "windwo": "window", "bann": "ban", "lgo": "log", "action": "actions", "acitosn": "actions",
		"max": "", "": "", "x": "", "bn": "ban", "limitation": "", strings.Repeat("a", 1000): "",
	} {
		if near, _ := nearest(got, known); near != want {
			t.Errorf("nearest to %q: %q, want %q", got, near, want)
		}
	}
}

// TestDistance compares with the definition, written as a recursion.
func TestDistance(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		want := slowDistance(a, b)
		if got := distance(a, b); got != want {
			t.Fatalf("distance(%q, %q) = %d, want %d", a, b, got, want)
		}
	})
}

func slowDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	d := min(slowDistance(a[1:], b)+1, slowDistance(a, b[1:])+1)
	if a[0] == b[0] {
		d = min(d, slowDistance(a[1:], b[1:]))
	} else {
		d = min(d, slowDistance(a[1:], b[1:])+1)
	}
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		d = min(d, slowDistance(a[2:], b[2:])+1)
	}
	return d
}
