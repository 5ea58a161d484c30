// Package words writes values for people, the same way everywhere.
package words

import (
	"fmt"
	"net/netip"
	"strings"
)

// Target writes a single address without its length, and "" for no target.
func Target(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return ""
	case p.IsSingleIP():
		return p.Addr().String()
	}
	return p.String()
}

// Thousands writes a number with commas.
func Thousands[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 && s[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Plural counts things: "1 ban", "1,200 bans".
func Plural[N int | int64 | uint64](n N, what string) string {
	if n != 1 {
		what += "s"
	}
	return Thousands(n) + " " + what
}

// Clip cuts a text to n bytes, with no character cut in half, and an ellipsis
// behind them if it was longer.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
