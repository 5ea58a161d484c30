package config

import (
	"slices"
	"strconv"
	"strings"
)

// suggest returns `, did you mean "nginx"?` if a candidate looks like got
// mistyped, else the known words, else nothing. The result is appended to a
// message.
func suggest(got string, candidates []string) string {
	if near, ok := nearest(got, candidates); ok {
		return ", did you mean " + strconv.Quote(near) + "?"
	}
	if len(candidates) == 0 {
		return ""
	}
	return " (known: " + strings.Join(candidates, ", ") + ")"
}

// nearest returns the candidate with the smallest edit distance, the first
// among equals, if it is small for the length of the word. Upper case in got
// is ignored.
func nearest(got string, candidates []string) (string, bool) {
	const longest = 64 // longer than any key, and keeps the quadratic cost small
	if len(got) > longest {
		return "", false
	}
	best, bestDist := "", min(1+max(1, len(got)/3), len(got))
	for _, c := range candidates {
		if len(c) > longest {
			continue
		}
		if d := distance(strings.ToLower(got), c); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best, best != ""
}

// distance is the least number of bytes inserted, removed, replaced or
// swapped with their neighbour (each byte once) that turns a into b.
func distance(a, b string) int {
	var before []int // row i-2
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = slices.Min([]int{last[j] + 1, row[j-1] + 1, last[j-1] + cost})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
