package source

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// cutAll is the reference: what a reader must send of a finished file.
func cutAll(content []byte, limit int) []part {
	var all []part
	at := int64(0)
	for line := range bytes.SplitAfterSeq(content, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		zeros := len(line) - len(bytes.TrimLeft(line, "\x00"))
		p := part{Start: at + int64(zeros), Next: at + int64(len(line))}
		if at, line = p.Next, line[zeros:]; len(line) == 0 {
			continue
		}
		p.Data = string(line)
		if text := bytes.TrimSuffix(line, []byte("\n")); len(text) > limit {
			p.Data, p.Cut = string(text[:limit]), true
		}
		all = append(all, p)
	}
	return all
}

// readAll lets a reader see a file that grows by the given pieces, and splits
// its batches into lines.
func readAll(t interface{ Fatal(...any) }, path string, pieces [][]byte, limit int) []part {
	w, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var p pool
	r, err := newReader(f, &File{Log: "web"}, path, 0, false, limit, "", &p)
	if err != nil {
		t.Fatal(err)
	}
	var all []part
	for _, piece := range pieces {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
		if c, _, err := r.refresh(); err != nil || c != intact {
			t.Fatal("refresh of a file that only grew:", c, err)
		}
		for more := true; more; {
			var b *Batch
			if b, more, err = r.read(); err != nil {
				t.Fatal(err)
			}
			if b != nil {
				all = append(all, lines(t, b)...)
			}
		}
	}
	b, err := r.last()
	if err != nil {
		t.Fatal(err)
	}
	return append(all, lines(t, b)...)
}

func lines(t interface{ Fatal(...any) }, b *Batch) []part {
	defer b.Done()
	if b.Position.Offset != b.Next || b.Position.HeadLen != min(b.Next, headMax) {
		t.Fatal("position disagrees with the batch:", b.Position, b.Next)
	}
	if b.Cut {
		return []part{{Data: string(b.Data), Start: b.Offset, Next: b.Next, Cut: true}}
	}
	all := cutAll(b.Data, len(b.Data))
	for i := range all {
		all[i].Start += b.Offset
		all[i].Next += b.Offset
	}
	if n := len(all); n > 0 && all[n-1].Next != b.Next {
		t.Fatal("batch says it ends at", b.Next, "but its lines end at", all[n-1].Next)
	}
	return all
}

func compare(t interface{ Fatal(...any) }, got, want []part) {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatal("got", len(got), "lines, want", len(want))
		}
		if got[i] != want[i] {
			t.Fatal("line", i, "is", shorten(got[i].Data), got[i].Start, got[i].Next, got[i].Cut,
				"want", shorten(want[i].Data), want[i].Start, want[i].Next, want[i].Cut)
		}
	}
}

func TestReaderAgreesWithSplitting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{1, 2, 100, rescan, 20_000, 300_000}).Draw(t, "limit")
		var content []byte
		lengths := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(limit-1, limit+2), rapid.IntRange(0, 3*limit))
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			content = append(content, strings.Repeat("x", lengths.Draw(t, "length"))+"\n"...)
		}
		content = append(content, strings.Repeat("y", lengths.Draw(t, "rest"))...)
		var pieces [][]byte
		for rest := content; len(rest) > 0; {
			n := min(rapid.IntRange(1, len(content)).Draw(t, "piece"), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		compare(t, readAll(t, path, pieces, limit), cutAll(content, limit))
	})
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree"), 3, uint16(4))
	f.Add([]byte("\x00\x00\n\r\n"), 1, uint16(1))
	f.Add([]byte("one\n\x00\x00two\x00\n\x00\x00"), 9, uint16(3))
	f.Fuzz(func(t *testing.T, content []byte, limit int, piece uint16) {
		if limit < 1 || limit > 1<<20 || piece == 0 {
			t.Skip()
		}
		var pieces [][]byte
		for rest := content; len(rest) > 0; {
			n := min(int(piece), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		compare(t, readAll(t, filepath.Join(t.TempDir(), "log"), pieces, limit), cutAll(content, limit))
	})
}

func TestWholeLines(t *testing.T) {
	tests := []struct {
		in        string
		limit     int
		end, long int
	}{
		{"", 3, 0, 0},
		{"abc", 3, 0, 0},
		{"abcdef", 3, 0, 0}, // its end isn't known
		{"abc\n", 3, 4, 0},
		{"abcd\n", 3, 0, 4},
		{"a\nabcd\n", 3, 2, 0},
		{"abc\nabc\nab", 3, 8, 0},
		{"\n\n\n", 1, 3, 0},
		{"abcd\na\n", 3, 0, 4},
	}
	for _, tt := range tests {
		if end, long := wholeLines([]byte(tt.in), tt.limit); end != tt.end || long != tt.long {
			t.Errorf("wholeLines(%q, %d) = %d, %d; want %d, %d", tt.in, tt.limit, end, long, tt.end, tt.long)
		}
	}
}

func TestHeadAgrees(t *testing.T) {
	content := "0123456789"
	position := func(offset, length int64, head string) Position {
		return Position{Offset: offset, HeadLen: length, Head: head}
	}
	tests := []struct {
		name string
		p    Position
		want bool
	}{
		{"same", position(10, 10, hashHead([]byte(content))), true},
		{"grown", position(4, 4, hashHead([]byte(content[:4]))), true},
		{"no head", position(10, 0, ""), true},
		{"other head", position(4, 4, hashHead([]byte("abcd"))), false},
		{"too short", position(11, 4, hashHead([]byte(content[:4]))), false},
		{"shorter than its head", position(4, 11, hashHead([]byte(content))), false},
		{"damaged offset", position(-1, 0, ""), false},
		{"damaged length", position(4, -1, ""), false},
		{"same before the offset", Position{Offset: 6, Tail: hashHead([]byte("45")), TailLen: 2}, true},
		{"other before the offset", Position{Offset: 6, Tail: hashHead([]byte("4x")), TailLen: 2}, false},
		{"damaged length before it", Position{Offset: 6, Tail: hashHead([]byte("45")), TailLen: 7}, false},
	}
	for _, tt := range tests {
		got, err := headAgrees(strings.NewReader(content), int64(len(content)), tt.p)
		if err != nil || got != tt.want {
			t.Errorf("%s: %v, %v; want %v", tt.name, got, err, tt.want)
		}
	}
}

func TestDoneGivesMemoryBackOnce(t *testing.T) {
	var p pool
	b := &Batch{pool: &p, buf: p.get(10), Data: []byte("x")}
	b.Done()
	if b.Data != nil {
		t.Error("Data is still there after Done")
	}
	b.Done() // a second call must not put the buffer into the pool twice
	x, y := p.get(10), p.get(10)
	if &x[0] == &y[0] {
		t.Error("one buffer was handed out twice")
	}
	(&Batch{}).Done() // made elsewhere
}

func TestMemoryIsBounded(t *testing.T) {
	m := newMemory("web", nil)
	for i := range uint64(2 * maxRemembered) {
		m.put(identity{1, i}, start{finished: true})
	}
	if len(m.byID) != maxRemembered || len(m.added) != maxRemembered {
		t.Errorf("%d and %d entries, want %d", len(m.byID), len(m.added), maxRemembered)
	}
	if _, ok := m.byID[identity{1, 2*maxRemembered - 1}]; !ok {
		t.Error("the newest was forgotten")
	}
}

// A file that is met again later must outlive the place it once had in line.
func TestMemoryKeepsWhatIsPutAgain(t *testing.T) {
	m := newMemory("web", nil)
	again := identity{2, 0}
	m.put(again, start{finished: true})
	m.drop(again)
	for i := range uint64(maxRemembered - 1) {
		m.put(identity{1, i}, start{finished: true})
	}
	m.put(again, start{finished: true}) // pushes its older place out
	if _, ok := m.byID[again]; !ok {
		t.Error("it was forgotten with its older place")
	}
}

// What a position knows a file by is what was read, also if the file has been
// truncated and written anew in that moment: a copy is found by it.
func TestPositionIsOfWhatWasRead(t *testing.T) {
	for _, content := range []string{"one\n", "\x00\x00\x00one\n"} {
		path := logPath(t)
		f := create(t, path, content)
		in, err := os.Open(path)
		must(t, err)
		defer in.Close()
		r, err := newReader(in, &File{}, path, 0, false, 100, "", new(pool))
		must(t, err)
		_, _, err = r.refresh()
		must(t, err)
		for r.offset < int64(len(content)) {
			buf := []byte(content[r.offset:])
			must(t, f.Truncate(0))
			write(t, f, "another\n")
			_, err = r.take(buf, len(buf), r.offset)
			must(t, err)
		}
		p := r.position()
		if p.HeadLen != int64(len(content)) || p.Head != hashHead([]byte(content)) || p.Tail != p.Head {
			t.Errorf("%q: the position is not of what was read: %+v", content, p)
		}
	}
}
