package argv

import (
	"slices"
	"strings"
	"testing"
)

func fill(h Hole) string { return "<" + string(h) + ">" }

func TestParse(t *testing.T) {
	for _, c := range []struct {
		verb  Verb
		batch bool
		args  []string
		want  string // expanded, joined by |; or what is wrong
	}{
		{Ban, false, []string{"/bin/ban", "{prefix}", "a{address}/{bits}b", "{family}{seconds}", "{until} {until_time}"},
			"/bin/ban|<prefix>|a<address>/<bits>b|<family><seconds>|<until> <until_time>"},
		{Ban, false, []string{"/bin/ban", "{{prefix}}", "{{{prefix}}}", "", "a b;c"}, "/bin/ban|{prefix}|{<prefix>}||a b;c"},
		{Unban, false, []string{"/bin/unban", "{prefix}"}, "/bin/unban|<prefix>"},
		{Check, true, []string{"/bin/check", "{prefix}"}, "/bin/check|<prefix>"}, // one by one all the same
		{List, false, []string{"/bin/list", "-{family}"}, "/bin/list|-<family>"},
		{Ban, true, []string{"/bin/ban", "all"}, "/bin/ban|all"},

		{Ban, true, []string{"/bin/ban", "{prefix}"}, "1: unknown placeholder {prefix}; there are here: none, as the targets are on standard input"},
		{Unban, false, []string{"/bin/unban", "{seconds}"}, "1: unknown placeholder {seconds}; there are here: {address}, {bits}, {family}, {prefix}"},
		{List, false, []string{"/bin/list", "{prefix}"}, "1: unknown placeholder {prefix}; there are here: {family}"},
		{Ban, false, []string{"ban", "{", "}"}, "0: the program's path must be absolute, as in /usr/sbin/ip (it is not looked for, and no shell is used)\n" +
			"1: a { without its }; a brace that is meant as such is written twice\n2: a } without its {; a brace that is meant as such is written twice"},
		{Ban, false, []string{"/bin/{family}"}, "0: the program's path can have no placeholders"},
		{Ban, false, []string{""}, "0: the program's path must be absolute, as in /usr/sbin/ip (it is not looked for, and no shell is used)"},
		{Ban, false, []string{"/bin/ban", "a\x00b"}, "1: an argument cannot contain a NUL"},
	} {
		tmpl, wrong := Parse(c.verb, c.args, c.batch)
		var lines []string
		for _, w := range wrong {
			lines = append(lines, string(rune('0'+w.Element))+": "+w.Err.Error())
		}
		got := strings.Join(lines, "\n")
		if len(wrong) == 0 {
			got = strings.Join(tmpl.Expand(fill), "|")
		}
		if got != c.want {
			t.Errorf("%s %q is\n%s\nwant\n%s", c.verb, c.args, got, c.want)
		}
	}
}

func TestTemplate(t *testing.T) {
	var none Template
	if none.Given() || none.Has(Prefix) {
		t.Error("nothing is something")
	}
	tmpl, _ := Parse(Ban, []string{"/bin/ban", "x{address}"}, false)
	if !tmpl.Given() || tmpl.Program() != "/bin/ban" || !tmpl.Has(Prefix, Address) || tmpl.Has(Bits) {
		t.Errorf("got %+v", tmpl)
	}
}

// Whatever an argument is, it stays one, and has all of its text in it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"{prefix}", "{{}}", "a{b", "}", "{seconds}x{", "{{{address}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		tmpl, wrong := Parse(Ban, []string{"/bin/x", arg}, false)
		if len(wrong) > 0 {
			return
		}
		got := tmpl.Expand(func(Hole) string { return "\x00" })
		if len(got) != 2 {
			t.Fatalf("%q becomes %q", arg, got)
		}
		back := strings.NewReplacer("{", "{{", "}", "}}").Replace(got[1])
		parts := strings.Split(back, "\x00")
		if n := strings.Count(got[1], "\x00"); n > 0 != tmpl.Has(Holes(Ban, false)...) {
			t.Fatalf("%q has %d placeholders", arg, n)
		}
		rest := arg
		for i, p := range parts { // between them stand placeholders
			if !strings.HasPrefix(rest, p) {
				t.Fatalf("%q becomes %q", arg, got[1])
			}
			if rest = rest[len(p):]; i == len(parts)-1 {
				break
			}
			end := strings.IndexByte(rest, '}')
			if end < 0 || rest[0] != '{' || !slices.Contains(Holes(Ban, false), Hole(rest[1:end])) {
				t.Fatalf("%q becomes %q", arg, got[1])
			}
			rest = rest[end+1:]
		}
		if rest != "" {
			t.Fatalf("%q becomes %q", arg, got[1])
		}
	})
}
