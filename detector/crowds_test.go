package detector

import (
	"fmt"
	"strings"
	"testing"
)

// Whoever has a network to himself, or many addresses, doesn't keep a machine from
// proving itself: neither by questions, nor by look-ups that take long, nor by
// decisions that wait.
func TestClaimantsLeaveRoom(t *testing.T) {
	for _, tt := range []struct {
		why, address, path     string
		taken, asked, waitLess int
	}{
		{"one /64 asks", "2001:db8:1:2::%x", "/", MaxTaken, 64, 64},
		{"one /48 asks", "2001:db8:1:%x::1", "/", MaxTaken, 128, 1},
		{"one /32 asks", "2001:db8:%x::1", "/", MaxTaken, 256, 1},
		{"one /64 is to be banned", "2001:db8:1:2::%x", "/trap", MaxTaken, 64, 65},
		{"one /48 is to be banned", "2001:db8:1:%x::1", "/trap", MaxTaken, 128, 129},
		{"one /32 is to be banned", "2001:db8:%x::1", "/trap", MaxTaken, 256, 257},
		{"all the world asks", "2%03x:db8::1", "/", MaxQuestions - 1, MaxQuestions, 1},
	} {
		p := newPlay(t, named(t))
		p.sec = 1
		for i := range 2000 {
			p.request(fmt.Sprintf(tt.address, i+1), "Googlebot", tt.path)
		}
		if st := p.ProofStats(); st.Questions != tt.asked || st.Postponed >= tt.waitLess {
			t.Errorf("%s: %d questions and %d decisions wait, want %d and less than %d", tt.why, st.Questions, st.Postponed, tt.asked, tt.waitLess)
		}
		first, _ := p.Question()
		for n := 2; n < tt.taken; n++ {
			if _, ok := p.Question(); !ok {
				t.Errorf("%s: there is no question %d", tt.why, n)
			}
		}
		if got := p.run("@2 G G G"); got != "counted; counted; counted waits" {
			t.Errorf("%s: a machine is %s", tt.why, got)
		}
		if got := p.run("?"); !strings.Contains(got, "asks "+p.client) || strings.Count(got, "asks") > 2 {
			t.Errorf("%s: at last %s", tt.why, got)
		}
		if got := p.run("+x.googlebot.com G"); got != "search, by DNS: x.googlebot.com" {
			t.Errorf("%s: then it is %s", tt.why, got)
		}
		p.Answer(Answer{Question: first, Result: Unknown, Until: p.now() + dayOf})
		if _, ok := p.Question(); ok != (tt.taken == MaxTaken) { // of all the world, all have been taken
			t.Errorf("%s: with an answer, somebody else of them is asked for: %v", tt.why, ok)
		}
	}
}
