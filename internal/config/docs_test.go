package config

import (
	goscanner "go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/lists"
)

const referencePage = "../../docs/configuration.md"

// spot is a table of the configuration in which keys can be, with what makes
// a whole configuration of it.
type spot struct {
	heads []string // the page's sections with its keys
	table string   // how it begins
	lines []string // keys that it needs
	rest  string   // what else the file needs
}

const (
	someLog  = "[logs.nginx]\nfiles = \"/var/log/nginx/access.log\"\n"
	someJail = "[jails.web]\nlimit = 7\nwindow = \"7s\"\nban = \"7s\"\n"
	someFire = "[actions.firewall]\ntype = \"nftables\"\n[actions.other]\ntype = \"log\"\n"
)

// spots are all of them, by the name that tests call them.
func spots() map[string]spot {
	jail := []string{`limit = 7`, `window = "7s"`, `ban = "7s"`}
	action := func(kind, head string, lines ...string) spot {
		heads := []string{"`[actions.NAME]`"}
		if head != "" {
			heads = append(heads, head)
		}
		return spot{heads, "[actions.edge]", append([]string{`type = "` + kind + `"`}, lines...), someLog + someJail}
	}
	return map[string]spot{
		"top":        {[]string{"Top level"}, "", nil, someLog + someJail},
		"breaker":    {[]string{"`[breaker]`"}, "[breaker]", nil, someLog + someJail},
		"lists":      {[]string{"Refresh"}, "[lists]", nil, someLog + someJail},
		"lists.NAME": {[]string{"Refresh: `[lists.NAME]`"}, "[lists.googlebot]", []string{`source = "https://a.example/"`}, someLog + someJail},
		"logs":       {[]string{"`[logs.NAME]`"}, "[logs.nginx]", []string{`files = "/var/log/nginx/access.log"`}, someJail},
		"jails":      {[]string{"`[jails.NAME]`, and `[defaults]`"}, "[jails.web]", jail, someLog + "[logs.shop]\nfiles = \"/var/log/shop.log\"\n" + someFire},
		"override":   {[]string{"`override`"}, "[[jails.web.override]]", []string{`from = "192.0.2.1"`, `limit = 9`}, someLog + someJail},
		"where":      {[]string{"`where`"}, "[jails.web.where]", nil, someLog + someJail},
		"not":        {[]string{"`where`"}, "[jails.web.where.not]", []string{`method = "PUT"`, `agent = "nobody"`}, someLog + someJail},
		"deny":       {[]string{"`[deny]`"}, "[deny]", []string{`agents = "nobody"`, `ban = "7s"`}, someLog + someJail + someFire},
		"wanted":     {[]string{"`[wanted.NAME]`"}, "[wanted.monitor]", []string{`agent = "shop-check"`, `from = "192.0.2.1"`}, someLog + someJail},
		"nftables":   action(TypeNftables, ""),
		"iptables":   action(TypeIptables, ""),
		"log":        action(TypeLog, ""),
		"command":    action(TypeCommand, "Commands", `ban = ["/bin/edge", "ban", "{prefix}"]`, `unban = ["/bin/edge", "unban", "{prefix}"]`),
		"cloudflare": action(TypeCloudflare, "Cloudflare", `account = "00000000000000000000000000000000"`, `token_file = "/etc/token"`),
		"notify":     {[]string{"`[notify.NAME]`"}, "[notify.chat]", []string{`url = "https://a.example/"`}, someLog + someJail},
	}
}

// alongside is what a key needs beside it, and "-KEY" what it can't have.
func alongside(spot, key, value string) []string {
	switch spot + "." + key {
	case "logs.journal", "logs.syslog", "logs.stdin", "logs.fifo":
		return []string{"-files"}
	case "logs.from_users":
		return []string{"-files", `syslog = "unix:/run/log.sock"`}
	case "logs.allow_from":
		return []string{"-files", `syslog = "udp:127.0.0.1:514"`}
	case "logs.header":
		return []string{`format = '$remote_addr [$time_local] "$request" $status "$http_x_real_ip" "$http_x_forwarded_for"'`}
	case "logs.fields":
		return []string{`format = "json"`}
	case "wanted.agent_only":
		if value == "true" {
			return []string{"-from", `limit = 9`, `window = "9s"`}
		}
	case "wanted.limit":
		return []string{`window = "9s"`}
	case "wanted.window":
		return []string{`limit = 9`}
	case "command.list_target":
		return []string{`list = ["/bin/edge", "list"]`}
	case "command.list_seconds":
		return []string{`list = ["/bin/edge", "list"]`, `list_target = "dst"`}
	case "command.batch":
		if value != "" && value != "1" {
			return []string{"-ban", "-unban", `ban = ["/bin/edge", "ban"]`, `unban = ["/bin/edge", "unban"]`}
		}
	case "cloudflare.lease", "cloudflare.rule_action":
		return []string{`zones = "00000000000000000000000000000000"`}
	case "top.metrics_exposed":
		if value == "true" {
			return []string{`metrics = "192.0.2.1:10911"`}
		}
	case "notify.url_file":
		return []string{"-url"}
	}
	return nil
}

// with is the configuration with a key of the place set to a value, or, if it is
// empty, without that key.
func (p spot) with(name, key, value string) string {
	lines := slices.Clone(p.lines)
	drop := func(key string) {
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, key+" = ") })
	}
	for _, extra := range alongside(name, key, value) {
		if gone, ok := strings.CutPrefix(extra, "-"); ok {
			drop(gone)
		} else {
			lines = append(lines, extra)
		}
	}
	drop(key)
	if value != "" {
		lines = append(lines, key+" = "+value)
	}
	text := strings.Join(lines, "\n") + "\n"
	if p.table == "" {
		return text + p.rest
	}
	return p.rest + p.table + "\n" + text
}

// documentedKey is a row of a table of the page.
type documentedKey struct{ name, kind, def, example, text string }

// documentedKeys are the rows by section.
func documentedKeys(t *testing.T) map[string][]documentedKey {
	t.Helper()
	text, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]documentedKey{}
	head, section := "", ""
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "#") {
			head, section = strings.TrimLeft(line, "# "), ""
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		first := cells[0]
		switch {
		case !strings.HasPrefix(line, "|"):
			section = ""
		case first == "key" || strings.HasPrefix(first, "key of "):
			section = head
			if of, ok := strings.CutPrefix(first, "key of "); ok {
				section += ": " + of
			}
			if len(cells) < 4 || cells[1] != "type" || cells[2] != "default" || cells[3] != "example" {
				t.Errorf("a table of keys below %q is headed %q: it needs key, type, default and example", head, line)
				section = ""
			}
		case section != "" && strings.HasPrefix(first, "`"):
			if len(cells) < 5 {
				t.Errorf("a row below %q has not all cells: %s", head, line)
				continue
			}
			out[section] = append(out[section], documentedKey{strings.Trim(first, "`"), cells[1], cells[2], strings.Trim(cells[3], "`"), strings.Join(cells[4:], " | ")})
		}
	}
	return out
}

// refusal is what is said of a date, which no key takes, by the type of a key.
func refusal(kind string) string {
	switch kind {
	case "duration", "list of durations":
		return "must be a duration"
	case "size":
		return "must be a size"
	case "share":
		return "must be a share"
	case "true or false":
		return "must be true or false"
	case "table":
		return "must be a table"
	case "program":
		return "must be a list"
	case "list of ports":
		return "must be a port number"
	case "list of statuses":
		return "a status is a number"
	case "list of tables":
		return "must be a table like"
	case "text", "word", "path", "address", "list of texts", "list of words", "list of paths", "list of addresses":
		return "must be text in quotes"
	}
	if strings.HasPrefix(kind, "number of ") {
		return "must be a whole number"
	}
	return ""
}

// try parses the configuration with the key as given.
func try(p spot, name, key, value string) (*Config, string) {
	c, err := Parse("jails.toml", []byte(p.with(name, key, value)), nil)
	if err != nil {
		return nil, err.Error()
	}
	return c, ""
}

const aDate = "1979-05-27"

// Each key of the page is one that the code reads, of the type, with the default,
// and taken as in the example.
func TestReferenceIsRight(t *testing.T) {
	t.Parallel()
	rows := documentedKeys(t)
	used := map[string]bool{}
	for name, p := range spots() {
		for _, head := range p.heads {
			used[head] = true
			if len(rows[head]) == 0 {
				t.Errorf("no table of keys below %q", head)
			}
			for _, k := range rows[head] {
				_, problem := try(p, name, k.name, aDate)
				switch {
				case strings.Contains(problem, "is for type = "): // of another type of action
				case k.name == "type" && name != TypeNftables, name == "not" && k.name == "not":
				default:
					p.check(t, name, k)
				}
			}
		}
	}
	for head := range rows {
		if !used[head] {
			t.Errorf("a table of keys below %q is of no place that is known here", head)
		}
	}
}

func (p spot) check(t *testing.T, name string, k documentedKey) {
	t.Helper()
	at := name + "." + k.name
	want := refusal(k.kind)
	_, problem := try(p, name, k.name, aDate)
	switch {
	case want == "":
		t.Errorf("%s: nobody knows the type %q", at, k.kind)
	case !strings.Contains(problem, want):
		t.Errorf("%s: is not of type %q: a date gives %q", at, k.kind, problem)
	}
	given, problem := try(p, name, k.name, k.example)
	if given == nil {
		t.Errorf("%s: the example %s gives %q", at, k.example, problem)
		return
	}
	list := strings.HasPrefix(k.kind, "list of ") || k.kind == "program"
	if list != strings.HasPrefix(k.example, "[") {
		t.Errorf("%s: the example %s is not of type %q", at, k.example, k.kind)
	}
	if c, _ := try(p, name, k.name, "["+k.example+"]"); c != nil && !list {
		t.Errorf("%s: takes a list as well", at)
	}
	if c, _ := try(p, name, k.name, `"no-such-word"`); c != nil && k.kind == "word" {
		t.Errorf("%s: takes any word", at)
	}
	without, problem := try(p, name, k.name, "")
	literal := strings.HasPrefix(k.def, "`") && strings.Count(k.def, "`") == 2 && strings.HasSuffix(k.def, "`")
	switch {
	case k.def == "required" || strings.HasPrefix(k.def, "required with"):
		if !strings.Contains(problem, "required") {
			t.Errorf("%s: is not required: %q", at, problem)
		}
		return
	case without == nil:
		orElse := k.def == "none" || strings.HasPrefix(k.def, "that of ") // one of several is, or it is elsewhere
		if !orElse || !strings.Contains(problem, "required") {
			t.Errorf("%s: without it: %q", at, problem)
		}
		return
	case literal && at != "cloudflare.reconcile": // its own is told behind
		c, problem := try(p, name, k.name, strings.Trim(k.def, "`"))
		if c == nil {
			t.Errorf("%s: the default %s gives %q", at, k.def, problem)
			return
		}
		if d := diffConfig(without, c); d != "" {
			t.Errorf("%s: %s is not the default (-without +with):\n%s", at, k.def, d)
		}
	}
	if diffConfig(without, given) == "" {
		t.Errorf("%s: the example %s does what the default does", at, k.example)
	}
}

// What the code reads is on the page: of all words in the code, those that are no
// unknown keys.
func TestReferenceIsComplete(t *testing.T) {
	t.Parallel()
	rows := documentedKeys(t)
	words := wordsOfCode(t)
	for _, k := range []string{"limit", "protect_table", "unban", "api_base"} {
		if !slices.Contains(words, k) {
			t.Errorf("%q is not found in the code", k)
		}
	}
	groups := []string{"logs", "jails", "defaults", "deny", "wanted", "actions", "notify", "breaker", "lists"}
	for name, p := range spots() {
		for _, word := range words {
			_, problem := try(p, name, word, aDate)
			known := !strings.Contains(problem, "unknown key") && !strings.Contains(problem, "unknown provider or key") &&
				!strings.Contains(problem, "is for type = ")
			documented := slices.ContainsFunc(p.heads, func(head string) bool {
				return slices.ContainsFunc(rows[head], func(k documentedKey) bool { return k.name == word })
			})
			switch {
			case name == "top" && slices.Contains(groups, word):
				if !documentedTable(t, word) {
					t.Errorf("no section of the page is about [%s]", word)
				}
			case name == "not" && word == "not", name == "lists" && slices.Contains(lists.Names(), word):
			case known && !documented:
				t.Errorf("%s.%s is read, and %s doesn't have it below %q", name, word, referencePage, p.heads)
			}
		}
	}
}

// documentedTable reports whether a heading of the page has the table.
func documentedTable(t *testing.T, name string) bool {
	t.Helper()
	text, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^(## |\| key of ).*\[` + name + `[.\]]`).Match(text)
}

// [defaults] takes what a jail takes, but for what is said there.
func TestDefaultsTakeWhatJailsTake(t *testing.T) {
	t.Parallel()
	p := spot{table: "[defaults]", rest: someLog + someJail + someFire}
	for _, k := range documentedKeys(t)["`[jails.NAME]`, and `[defaults]`"] {
		c, problem := try(p, "defaults", k.name, k.example)
		if taken := c != nil; taken == (k.name == "where" || k.name == "override") {
			t.Errorf("defaults.%s: taken: %t %s", k.name, taken, problem)
		}
	}
}

// wordsOfCode are the texts in the code of this package that a key could be.
func wordsOfCode(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	isKey := regexp.MustCompile(`^[a-z_]+$`)
	var out []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		code, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var s goscanner.Scanner
		set := token.NewFileSet()
		s.Init(set.AddFile(name, -1, len(code)), code, nil, 0)
		for {
			_, tok, lit := s.Scan()
			if tok == token.EOF {
				break
			}
			if tok != token.STRING {
				continue
			}
			if word, err := strconv.Unquote(lit); err == nil && isKey.MatchString(word) {
				out = append(out, word)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
