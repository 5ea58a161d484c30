package detector

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However many texts there are: found is what a plain search finds.
func TestAgentsEqualPlainSearch(t *testing.T) {
	word := rapid.StringOfN(rapid.SampledFrom([]rune("abAB-")), 1, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(word, 1, 12).Draw(t, "texts")
		agent := rapid.StringOfN(rapid.SampledFrom([]rune("abAB-/")), 0, 12, -1).Draw(t, "agent")
		want := false
		for _, x := range texts {
			want = want || strings.Contains(strings.ToLower(agent), strings.ToLower(x))
		}
		a := newAgents(texts)
		room := rapid.SampledFrom([]int{0, maxTables}).Draw(t, "room")
		a.index(&room)
		if got := a.in(appendLower(nil, []byte(agent))); got != want {
			t.Fatalf("%q in %q: %v, want %v", texts, agent, got, want)
		}
	})
}

func BenchmarkAgents(b *testing.B) {
	var texts []string
	for i := range 100 {
		texts = append(texts, strings.Repeat(string(rune('a'+i%26)), 3)+string(rune('a'+i/26))+"bot")
	}
	a, room := newAgents(texts), maxTables
	a.index(&room)
	agent := bytes.Repeat([]byte("mozilla/5.0 (x11; linux x86_64) "), 128)
	b.SetBytes(int64(len(agent)))
	for b.Loop() {
		if a.in(agent) {
			b.Fatal("found")
		}
	}
}
