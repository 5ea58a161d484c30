package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What the page says of how small and how large a value may be ("1 s to 1 h", "2 to
// 256") is what the code takes.
func TestReferenceHasTheBounds(t *testing.T) {
	t.Parallel()
	bounds := regexp.MustCompile(`(?:^|[ (])([\d,]+)( [a-zA-Z]+)? to ([\d,]+)( [a-zA-Z]+)?`)
	rows := documentedKeys(t)
	checked := 0
	for name, p := range spots() {
		for _, head := range p.heads {
			for _, k := range rows[head] {
				m := bounds.FindStringSubmatch(k.text)
				_, problem := try(p, name, k.name, aDate)
				if m == nil || strings.Contains(problem, "is for type = ") || name == "cloudflare" && k.name == "reconcile" {
					continue
				}
				lo, hi, ok := edges(t, k.kind, m)
				if !ok {
					continue
				}
				checked++
				for value, want := range map[string]bool{lo[0]: false, lo[1]: true, hi[0]: true, hi[1]: false} {
					c, problem := try(p, name, k.name, value)
					if value != "" && (c != nil) != want && !strings.Contains(problem, "max_memory") {
						t.Errorf("%s.%s = %s: taken: %t %s, and the page says: %s", name, k.name, value, c != nil, problem, m[0])
					}
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d bounds found", checked)
	}
}

// edges are the values on both sides of the lower and of the upper bound; "" if
// there is none.
func edges(t *testing.T, kind string, m []string) (lo, hi [2]string, ok bool) {
	t.Helper()
	var ends [2]int64
	for i := range ends {
		n, err := strconv.ParseInt(strings.ReplaceAll(m[1+2*i], ",", ""), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = n
	}
	number := strings.HasPrefix(kind, "number of ")
	write := func(n int64) string { return strconv.FormatInt(n, 10) }
	switch {
	case kind == "size":
		for i := range ends {
			ends[i], _ = parseSize(fmt.Sprintf("%d%s", ends[i], strings.TrimSpace(m[2+2*i])))
		}
	case strings.Contains(kind, "duration"):
		for i := range ends {
			d, err := ParseDuration(fmt.Sprintf("%d%s", ends[i], strings.TrimSpace(m[2+2*i])))
			if err != nil {
				return lo, hi, false
			}
			ends[i] = int64(d / time.Second)
		}
		write = func(n int64) string { return `"` + FormatDuration(time.Duration(n)*time.Second) + `"` }
	case !number:
		return lo, hi, false
	}
	lo, hi = [2]string{write(ends[0] - 1), write(ends[0])}, [2]string{write(ends[1]), write(ends[1] + 1)}
	if ends[0] == 0 {
		lo[0] = ""
	}
	return lo, hi, true
}
