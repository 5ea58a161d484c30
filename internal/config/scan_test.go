package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// everySyntax holds each way of writing a key or a value that could mislead
// the scanner. Lines are referred to by TestScanLines.
const everySyntax = `# a comment = "not a key"
top = 1 # x = 2
"quoted key" = 'it''s'
'lit"eral' = """
fake = 1
\""" [fake]
"""""
a.b . "c.d" = [ # comment ]
  1,
  "x, # ] y", # two

  [3, { in = "deep" }],
  '''
  fake = 2
  ''',
]
inline = { x = 1, y.z = { w = "}" }, "\u0071" = [ ] }
when = 1979-05-27 07:32:00Z
[ table . "sub \"table\"" ]
key = true
[[array]]
name = "first"
[array.child]
k = 1
[[array]]
name = "second"
[[array.list]]
[array.list.child]
k = 2
`

func TestScanLines(t *testing.T) {
	ps, _, err := scan(strings.Replace(everySyntax, `'it''s'`, `'it'`, 1))
	if err != nil {
		t.Fatal(err)
	}
	ab := keyPath("a", "b", "c.d")
	inline := keyPath("inline")
	second := keyPath("array").elem(1)
	for _, tt := range []struct {
		path path
		line int
	}{
		{keyPath("top"), 2},
		{keyPath("quoted key"), 3},
		{keyPath(`lit"eral`), 4},
		{keyPath("a"), 8},
		{keyPath("a", "b"), 8},
		{ab, 8},
		{ab.elem(0), 9},
		{ab.elem(1), 10},
		{ab.elem(2), 12},
		{ab.elem(2).elem(1).key("in"), 12},
		{ab.elem(3), 13},
		{ab.elem(99), 8}, // the list, for want of better
		{inline.key("x"), 17},
		{inline.key("y").key("z").key("w"), 17},
		{inline.key("q"), 17},
		{keyPath("when"), 18},
		{keyPath("table"), 19},
		{keyPath("table", `sub "table"`), 19},
		{keyPath("table", `sub "table"`, "key"), 20},
		{keyPath("table", `sub "table"`, "absent"), 19},
		{keyPath("array").elem(0), 21},
		{keyPath("array").elem(0).key("name"), 22},
		{keyPath("array").elem(0).key("child").key("k"), 24},
		{second, 25},
		{second.key("name"), 26},
		{second.key("list").elem(0), 27},
		{second.key("list").elem(0).key("child").key("k"), 29},
		{keyPath("fake"), 0},
		{keyPath("x"), 0},
		{nil, 0},
	} {
		if got := ps.line(tt.path); got != tt.line {
			t.Errorf("line of %s: %d, want %d", tt.path.id(), got, tt.line)
		}
	}
}

func TestScanLineEnds(t *testing.T) {
	ps, _, err := scan("\xef\xbb\xbf# dos\r\n\r\na = 1\r\nb = [\r\n1,\r\n]\r\nc = 2")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"a": 3, "b": 4, "c": 7} {
		if got := ps.line(keyPath(key)); got != want {
			t.Errorf("line of %s: %d, want %d", key, got, want)
		}
	}
}

func TestScanStops(t *testing.T) {
	for _, tt := range []struct {
		name, src string
		line      int
		err       error
	}{
		{"deep lists", "\na = " + strings.Repeat("[", 1<<20), 2, errTooDeep},
		{"deep tables", "a = " + strings.Repeat("{a=", 1<<18), 1, errTooDeep},
		{"long dotted key", "\n\n" + strings.Repeat("a.", 1<<19), 3, errTooDeep},
		{"long header", "[" + strings.Repeat("a.", 1<<19), 1, errTooDeep},
		{"no value", "a = 1\nb =\nc = 2", 2, errSyntax},
		{"no key", "\n= 1", 2, errSyntax},
		{"open string", "a = \"x\nb = 1", 1, errSyntax},
		{"open literal", "a = 'x\nb = 1", 1, errSyntax},
		{"open multi-line string", "a = \"\"\"\n\n", 3, errSyntax},
		{"backslash at the end", `a = "\`, 1, errSyntax},
		{"backslash at the end of a multi-line string", `a = """\`, 1, errSyntax},
		{"open header", "[a\nb = 1", 1, errSyntax},
		{"half-open header", "[[a]\nb = 1", 1, errSyntax},
		{"open list", "a = [1,\n", 2, errSyntax},
		{"open table", "a = { b = 1", 1, errSyntax},
		{"bad escape in a key", `"\q" = 1`, 1, errSyntax},
		{"half an escape in a key", `"\u00" = 1`, 1, errSyntax},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, line, err := scan(tt.src); !errors.Is(err, tt.err) || line != tt.line {
				t.Errorf("scan: line %d, %v; want line %d, %v", line, err, tt.line, tt.err)
			}
		})
	}
}

// FuzzScan compares the scanner with the decoder: what the decoder accepts,
// the scanner follows to the end; both see the same keys in the same order;
// and each stands on a line that shows it.
func FuzzScan(f *testing.F) {
	f.Add(strings.Replace(everySyntax, `'it''s'`, `'it'`, 1))
	for _, s := range []string{
		"", "a=1", "a.b.c = {d.e=[{f=1},{f=2}]}", "[[a]]\n[[a]]\nb=1", "a = '''x'''''\nb=1", "a = \"\"\"\\\n  \"\"\"\"\"\nb=1",
		"a = [[{b=1}]]", "\"\"=1", "a = {\n b = 1, # x\n}", "[a]\n[a.b]\n[[a.c]]\n[[a.c.d]]\nx.y=1", "\xef\xbb\xbfa=1", "a=\"\\x41\"",
		`a=""""\\""""""`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 4096 {
			return
		}
		ps, _, err := scan(src)
		if errors.Is(err, errTooDeep) {
			return
		}
		var table map[string]any
		md, decErr := decodeQuietly(src, &table)
		if decErr != nil {
			return
		}
		if err != nil {
			t.Fatalf("the decoder accepts it, scan says: %v", err)
		}
		var got, want []string
		for _, p := range ps.explicit {
			got = append(got, fmt.Sprintf("%q", p.keys()))
			checkLine(t, src, p, ps.line(p))
		}
		for _, k := range md.Keys() {
			want = append(want, fmt.Sprintf("%q", []string(k)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("keys:\n got %s\nwant %s", got, want)
		}
	})
}

// decodeQuietly turns a panic of the decoder into an error: it is not what is
// tested here.
func decodeQuietly(src string, v any) (md toml.MetaData, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return toml.Decode(src, v)
}

func checkLine(t *testing.T, src string, p path, line int) {
	t.Helper()
	lines := strings.Split(trimBOM(src), "\n")
	if line < 1 || line > len(lines) {
		t.Fatalf("%s is on line %d of %d", p, line, len(lines))
	}
	keys := p.keys()
	text, last := lines[line-1], keys[len(keys)-1]
	if !strings.Contains(text, last) && !strings.Contains(text, `\`) {
		t.Fatalf("%s is said to be on line %d, which is %q", p, line, text)
	}
}
