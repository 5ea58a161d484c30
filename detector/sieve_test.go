package detector

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// What is in the set always passes; once all is taken out, nothing does.
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
		for k, n := range set {
			for range n {
				s.remove(k)
			}
		}
		for k := range 1000 {
			if s.may(keyN(k)) {
				t.Fatalf("%v passes, and nothing is in the set", keyN(k))
			}
		}
	})
}

// Of what isn't in the set a quarter passes where it is as full as it gets, less
// otherwise.
func TestSieveLetsLittlePass(t *testing.T) {
	for _, keys := range []int{1, 64, 1000} {
		const sieves = 200
		size, passed := 0, 0
		for range sieves { // no two have the same seed
			s := newSieve()
			s.n = keys / 2
			s.reset()
			for n := range keys {
				if s.add(keyN(n)) {
					t.Fatal("too small")
				}
			}
			size = len(s.counts)
			for n := range 1000 {
				if s.may(keyN(10_000 + n)) {
					passed++
				}
			}
		}
		got, most := float64(passed)/(1000*sieves), float64(keys)/float64(size)
		if most > 0.25 || got > most*1.1+0.002 {
			t.Errorf("%d keys in %d: %.1f %% pass, want %.1f %% at most", keys, size, 100*got, 100*most)
		}
	}
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
