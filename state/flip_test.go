package state

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFlippedBits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds, and does one thing after the other")
	}
	in := makeIntact(t)
	heads := slices.Concat(pagesOf(in.data, flagLeaf), pagesOf(in.data, flagBranch), pagesOf(in.data, flagFreelist))
	tests := []struct {
		name string
		at   func(r *rand.Rand) int
	}{
		{"anywhere", func(r *rand.Rand) int { return r.IntN(len(in.data)) }},
		// Where it hurts most: headers and element tables.
		{"in page heads", func(r *rand.Rand) int { return heads[r.IntN(len(heads))]*pageSize + r.IntN(64) }},
		{"in meta pages", func(r *rand.Rand) int { return r.IntN(2)*pageSize + r.IntN(pageHeaderLen+metaLen) }},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(20310506, uint64(i)))
			scratch := filepath.Join(t.TempDir(), "state.db")
			noticed := 0
			for n := range 250 {
				data := bytes.Clone(in.data)
				at, bit := tt.at(r), r.IntN(8)
				data[at] ^= 1 << bit
				if in.surviveQuickly(t, data, scratch, n%50 == 49) {
					noticed++
				}
				if t.Failed() {
					t.Fatalf("that was with bit %d of byte %d (page %d, offset %d) flipped", bit, at, at/pageSize, at%pageSize)
				}
			}
			if noticed == 0 {
				t.Error("no flip was noticed: this tests nothing")
			}
		})
	}
}

// surviveQuickly is survive without waiting for the disk, unless it is to be
// thorough. A file found sound is shown to bbolt, which must agree. It
// reports whether anything was found.
func (in *intact) surviveQuickly(t *testing.T, data []byte, scratch string, thorough bool) bool {
	t.Helper()
	if thorough {
		return in.survive(t, data).Why != nil
	}
	c, bad := examine(bytes.NewReader(data), int64(len(data)), noon)
	if c == nil {
		t.Fatalf("examine: %v", bad)
	}
	if bad == nil {
		if err := os.WriteFile(scratch, data, 0o600); err != nil {
			t.Fatal(err)
		}
		checkWithBolt(t, scratch)
	} else {
		c.loaded.Damaged = "would be put aside"
	}
	in.checkTrue(t, &c.loaded)
	return c.loaded.Why != nil
}
