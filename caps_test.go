package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// capOf names a constant of the code, and as what a page tells it.
type capOf struct{ dir, name, kind string }

// caps are the rows of tables of caps, by page and the beginning of the row. A row
// without constants is a key of the configuration, whose default is checked elsewhere.
func caps() map[string]map[string][]capOf {
	const config, daemon, control, guard = "internal/config", "internal/daemon", "internal/control", "internal/guard"
	return map[string]map[string][]capOf{
		"docs/concepts.md": {
			"windows":                    nil,
			"SSH sessions":               {{guard, "maxSessions", "n"}, {guard, "maxSessionDir", "n"}, {guard, "maxUtmp", "bytes"}},
			"name servers":               {{guard, "maxResolvers", "n"}, {guard, "maxLinks", "n"}},
			"bans":                       nil,
			"addresses of a host name":   {{"internal/resolve", "MaxAddresses", "n"}, {config, "maxHosts", "n"}},
			"a file of addresses":        {{"internal/lists", "MaxSize", "bytes"}, {"internal/lists", "MaxEntries", "n"}},
			"published ranges":           {{"internal/lists", "MaxSize", "bytes"}, {"internal/lists", "MaxEntries", "n"}, {"internal/lists/refresh", "Timeout", "time"}, {"internal/lists/refresh", "maxRedirects", "n"}},
			"how far these may be":       nil,
			"offences remembered":        {{daemon, "maxOffences", "n"}, {"detector", "maxOffences", "n"}},
			"lines read again":           {{daemon, "maxReread", "bytes"}},
			"what is noted":              {{daemon, "maxNotes", "n"}},
			"new lines that wait":        {{daemon, "maxHeld", "bytes"}, {daemon, "rereadLimit", "time"}},
			"a line":                     nil,
			"a user agent":               {{"detector", "maxAgent", "bytes"}},
			"open files of a log":        {{config, "DefaultMaxFiles", "n"}},
			"our own log":                {{daemon, "perSecond", "n"}},
			"banned networks":            {{"actions", "netSize", "n"}},
			"regulars remembered":        {{daemon, "maxRegulars", "n"}},
			"bans in a minute":           nil,
			"allowed networks":           {{"actions", "allowSize", "n"}},
			"bans whose":                 {{"actions", "maxCutQueued", "n"}},
			"pardons":                    {{"detector", "MaxPardons", "n"}},
			"look-ups of names":          {{"internal/prove", "AtOnce", "n"}, {"internal/prove", "Again", "n"}, {"internal/prove", "PerSecond", "n"}, {"internal/prove", "maxNames", "n"}},
			"clients whose names":        {{"detector", "MaxQuestions", "n"}, {"detector", "MaxTaken", "n"}},
			"clients that are proved":    {{"detector", "MaxProved", "n"}},
			"clients that are disproved": {{"detector", "MaxUnproved", "n"}},
			"bans that wait for":         {{"detector", "MaxPostponed", "n"}},
			"allowances by hand":         {{daemon, "maxAllowances", "n"}, {daemon, "maxAllowance", "days"}},
			"who follows events":         {{daemon, "maxFollowers", "n"}, {daemon, "followerRoom", "n"}},
			"what `explain` reads":       {{daemon, "scanTail", "bytes"}, {daemon, "scanAll", "bytes"}, {daemon, "scanPatience", "time"}},
			"lines of an address":        {{daemon, "scanKept", "n"}},
			"evidence stored":            {{daemon, "samplePath", "n"}, {daemon, "sampleAgent", "n"}},
			"clients that a replay":      {{"internal/replay", "maxTop", "n"}},
		},
		"docs/security.md": {
			"connections to a socket":  {{control, "maxConns", "n"}, {control, "maxConnsUser", "n"}},
			"who follows events":       {{control, "maxFollowers", "n"}},
			"a request":                {{control, "maxBody", "bytes"}, {control, "maxHeader", "bytes"}},
			"messages to one notifier": {{"internal/notify", "DefaultPerHour", "n"}, {"internal/notify", "MaxPerHour", "n"}},
			"what a webhook answers":   {{"internal/notify", "maxAnswer", "n"}},
			"what Cloudflare answers":  {{"actions/cloudflare", "maxAnswer", "bytes"}},
			"what a program says":      {{"actions", "maxSaid", "bytes"}, {"actions", "maxListing", "bytes"}},
			"the configuration":        {{config, "maxFile", "bytes"}, {config, "maxDepth", "n"}},
			"a format string":          {{"parser", "maxSpec", "bytes"}},
			"JSON in a line":           {{"parser", "maxJSONDepth", "n"}},
		},
	}
}

// Caps that pages tell are those of the code.
func TestDocumentedCaps(t *testing.T) {
	t.Parallel()
	packages := map[string]constants{}
	for page, rows := range caps() {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, table, ok := strings.Cut(string(text), "| what | cap | beyond it |\n|---|---|---|\n")
		if !ok {
			t.Errorf("%s has no table of caps", page)
			continue
		}
		table, _, _ = strings.Cut(table, "\n\n")
		for _, row := range strings.Split(table, "\n") {
			key := ""
			for k := range rows {
				if strings.HasPrefix(row, "| "+k) && len(k) > len(key) {
					key = k
				}
			}
			if key == "" {
				t.Errorf("%s: which constants are meant by %q?", page, row)
				continue
			}
			for _, c := range rows[key] {
				if packages[c.dir] == nil {
					packages[c.dir] = constantsOf(t, c.dir)
				}
				if !saysOne(row, packages[c.dir].spellings(t, c)) {
					t.Errorf("%s: %s.%s is %v, and the page says: %s", page, c.dir, c.name, packages[c.dir].spellings(t, c), row)
				}
			}
			delete(rows, key)
		}
		for key := range rows {
			t.Errorf("%s tells no cap of %q", page, key)
		}
	}
}

// saysOne reports whether one of the texts is in a row, not as a part of another number.
func saysOne(row string, texts []string) bool {
	for _, s := range texts {
		for rest := row; ; {
			before, after, ok := strings.Cut(rest, s)
			if !ok {
				break
			}
			if !strings.HasSuffix(before, ",") && (before == "" || before[len(before)-1] < '0' || before[len(before)-1] > '9') &&
				(after == "" || after[0] < '0' || after[0] > '9') && !(len(after) > 1 && after[0] == ',' && after[1] >= '0' && after[1] <= '9') {
				return true
			}
			rest = after
		}
	}
	return false
}

// constants are what the constants of a package are defined as.
type constants map[string]ast.Expr

func constantsOf(t *testing.T, dir string) constants {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no code in %s: %v", dir, err)
	}
	out := constants{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, n := range v.Names {
					if i < len(v.Values) {
						out[n.Name] = v.Values[i]
					}
				}
			}
		}
	}
	return out
}

// spellings are how a page may write a constant.
func (c constants) spellings(t *testing.T, x capOf) []string {
	t.Helper()
	e, ok := c[x.name]
	if !ok {
		t.Fatalf("%s has no constant %s", x.dir, x.name)
	}
	n := c.value(t, e)
	switch x.kind {
	case "bytes":
		for _, u := range []struct {
			name string
			size int64
		}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
			if n%u.size == 0 {
				return []string{fmt.Sprintf("%d %s", n/u.size, u.name)}
			}
		}
	case "days":
		return []string{fmt.Sprintf("%d days", n/int64(24*time.Hour))}
	case "time":
		return []string{fmt.Sprintf("%d seconds", n/int64(time.Second))}
	}
	plain := strconv.FormatInt(n, 10)
	for i := len(plain) - 3; i > 0; i -= 3 {
		plain = plain[:i] + "," + plain[i:]
	}
	if words := []string{"", "one", "two", "three", "four"}; n > 0 && n < int64(len(words)) {
		return []string{plain, words[n]}
	}
	return []string{plain}
}

func (c constants) value(t *testing.T, e ast.Expr) int64 {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		n, ok := constant.Int64Val(constant.ToInt(constant.MakeFromLiteral(e.Value, e.Kind, 0)))
		if ok {
			return n
		}
	case *ast.ParenExpr:
		return c.value(t, e.X)
	case *ast.Ident:
		if x, ok := c[e.Name]; ok {
			return c.value(t, x)
		}
	case *ast.BinaryExpr:
		a, b := c.value(t, e.X), c.value(t, e.Y)
		switch e.Op {
		case token.MUL:
			return a * b
		case token.SHL:
			return a << b
		case token.SUB:
			return a - b
		}
	case *ast.SelectorExpr:
		if of, ok := map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]; ok {
			return int64(of)
		}
	}
	t.Fatalf("a constant of another form than is known here: %T", e)
	return 0
}
