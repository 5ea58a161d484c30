package detector

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// What is in the set always passes; of what isn't, little does.
func TestSieve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, set := newSieve(), map[key]int{}
		for range rapid.IntRange(1, 500).Draw(t, "changes") {
			k := keyN(rapid.IntRange(0, 100).Draw(t, "key"))
			if set[k] > 0 && rapid.Bool().Draw(t, "remove") {
				if set[k]--; set[k] == 0 {
					delete(set, k)
				}
				s.remove(k)
			} else {
				set[k]++
				if s.add(k) {
					s.reset()
					for k, n := range set {
						for range n {
							if s.add(k) {
								t.Fatal("still too small")
							}
						}
					}
				}
			}
			for k := range set {
				if !s.may(k) {
					t.Fatalf("%v does not pass", k)
				}
			}
		}
		passed := 0
		for n := range 1000 {
			if s.may(keyN(1000 + n)) {
				passed++
			}
		}
		if passed > 500 {
			t.Fatalf("%d of 1000 pass", passed)
		}
	})
}

func TestSieveCountsAtTheirEnd(t *testing.T) {
	s := newSieve()
	s.reset()
	k := keyN(1)
	s.counts[s.at(k)] = math.MaxUint16 - 1
	s.add(k)
	s.add(k)
	for range math.MaxUint16 {
		s.n++ // so many are in the set, for what is removed to be of it
		s.remove(k)
	}
	if !s.may(k) {
		t.Error("a count that was at its end was taken down again")
	}
}
