package parser

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// checkQuad holds quickQuad against parse4.
func checkQuad(t *testing.T, line string) {
	t.Helper()
	quad, size := quickQuad([]byte(line))
	text, _, blank := strings.Cut(line, " ")
	want, ok := parse4([]byte(text))
	got := [4]byte{byte(quad >> 24), byte(quad >> 16), byte(quad >> 8), byte(quad)}
	if ok = ok && blank && len(line) >= 16; ok != (size > 0) || ok && (got != want || size != len(text)) {
		t.Errorf("%q: %v of %d bytes; want %v, %v", line, got, size, want, ok)
	}
}

func TestQuickQuad(t *testing.T) {
	const behind = ` - - [29/Nov/2026:16:51:36 -0330] "`
	for n := range 260 {
		for _, form := range []string{"%d.2.33.144", "1.%d.33.144", "255.22.%d.1", "8.8.255.%d", "%[1]d.%[1]d.%[1]d.%[1]d", "0%d.1.1.1", "1.1.1.0%d"} {
			checkQuad(t, fmt.Sprintf(form, n)+behind)
		}
	}
	for _, text := range []string{"", ".", "...", "1.2.3", "1.2.3.", ".1.2.3", "1..2.3", "1.2.3.4.5", "1.2.3.4.", "1234.1.1.1", "255.255.255.255",
		"255.255.255.2555", "1.2.3.-4", "1.2.3.4\x00", "1.2.3.a", "::1", "2001:db8::1", "00.0.0.0", "0.0.0.0", "1.2.3.:", "00000.000.0000.", "1.2.345678.9", "123456789.1.2.3", "1.2.3./", "\xb1.2.3.4", "1\xae2.3.4"} {
		checkQuad(t, text+behind)
		checkQuad(t, text+" ")
		checkQuad(t, text)
	}
	for n := range 1 << 16 { // short lines: each byte is one of these
		for _, of := range []string{"1.", "1 ", ". "} {
			checkQuad(t, short(n, of))
			for _, more := range []string{" ", ".", " .", ". .. "} {
				checkQuad(t, short(n, of)+more)
			}
		}
	}
	const of = "0123456789. :\x00/\xb0\xffa"
	r := rand.New(rand.NewPCG(1, 2))
	for range 2_000_000 { // texts that are nearly addresses
		text := []byte(fmt.Sprintf("%d.%d.%d.%d", r.IntN(300), r.IntN(300), r.IntN(300), r.IntN(300)) + behind)
		for range r.IntN(4) {
			text[r.IntN(17)] = of[r.IntN(len(of))]
		}
		checkQuad(t, string(text))
	}
}

func TestFew(t *testing.T) {
	check := func(text string) {
		t.Helper()
		end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(text)
		}
		want, _ := strconv.ParseInt(text[:end], 10, 64)
		if got, n := quickSize([]byte(text)); got != want || n != end {
			t.Errorf("%q: %d of %d digits, want %d of %d", text, got, n, want, end)
		}
	}
	for _, text := range []string{"", "7", "12345678", "1234567", "123456789", "0", "00000000", "99999999 ", "999999999999999999", "- \"", "\xb0\xb1234567", "/:23456789"} {
		check(text)
		check(text + ` "-" "x"`)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 200_000 {
		text := []byte(fmt.Sprint(r.Int64N(1<<r.IntN(50)), " \"-\" \"agent\""))
		if r.IntN(4) == 0 {
			text[r.IntN(9)] = byte(r.IntN(256))
		}
		if i := strings.IndexFunc(string(text), func(r rune) bool { return r < '0' || r > '9' }); i >= 0 && i <= 18 {
			check(string(text))
		}
	}
}

// short is a line of 16 bytes, each of which is one of two by a bit of n.
func short(n int, of string) string {
	var b [16]byte
	for i := range b {
		b[i] = of[n>>i&1]
	}
	return string(b[:])
}

func FuzzQuad(f *testing.F) {
	f.Add("203.0.113.7 - - [29")
	f.Add("255.255.255.255 ")
	f.Add("00000.000.0000. ")
	f.Add("aaaaaaaaaaaa... ")
	f.Fuzz(checkQuad)
}
