package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/cli"
	"github.com/tailban/tailban/internal/syncbuf"
)

const troublesPage = "docs/troubleshooting.md"

// trouble is what a section of the page is about: a configuration, and a log.
type trouble struct {
	toml    string        // of /var/log/nginx and /var/lib/tailban
	log     string        // before the first command
	daemon  bool          // runs
	then    string        // lines that it gets once it does
	until   string        // status says then
	after   func() string // further lines
	seen    string        // status says then
	broken  string        // the configuration by then
	private bool          // the log is readable by its owner only
}

// requests are n lines of a log, all of now and from one peer, with a header if
// there is one.
func requests(n int, peer, header, request string, status int) string {
	return requestsAt(time.Now(), n, peer, header, request, status)
}

func requestsAt(at time.Time, n int, peer, header, request string, status int) string {
	if header != "" {
		header = ` "` + header + `"`
	}
	return strings.Repeat(fmt.Sprintf("%s - - [%s] \"%s HTTP/1.1\" %d 612 \"-\" \"Firefox\"%s\n",
		peer, at.UTC().Format("02/Jan/2006:15:04:05 -0700"), request, status, header), n)
}

// Who the page has check look at files for, and whom the test does.
const (
	serviceUser = "tailban"
	otherUser   = "65000"
)

// skewed are lines whose times are hours ahead, as they come one by one.
const (
	skewed = "skewed"
	ahead  = 5*time.Hour + 30*time.Minute
)

func troubles() map[string]trouble {
	const nginx = "[logs.nginx]\nfiles = \"/var/log/nginx/access.log\"\n"
	const web = "[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n"
	const program = "[actions.router]\ntype = \"command\"\nban = [\"/bin/true\", \"{prefix}\"]\nunban = [\"/bin/true\", \"{prefix}\"]\n"
	proxied := requests(51, "10.0.0.5", "203.0.113.66", "GET /", 200)
	return map[string]trouble{
		"Nobody is banned": {
			toml:   "mode = \"observe\"\n" + nginx + "[jails.sign-in]\nwhere = { method = \"POST\", path = \"/login\" }\nlimit = 10\nwindow = \"60s\"\nban = \"1h\"\n",
			daemon: true, then: requests(150, "203.0.113.66", "", "POST /sign-in", 401), until: " 150 ",
		},
		"Blind": {
			toml:   nginx + "format = \"caddy\"\n" + web,
			daemon: true, then: requests(150, "203.0.113.66", "", "GET /", 200), until: "blind",
		},
		"Times are off": {
			toml:   nginx + "format = '%h %l %u [%{%d/%b/%Y:%H:%M:%S}t +0000] \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"'\ntimezone = \"UTC\"\n" + web,
			daemon: true, then: skewed, until: "skew",
		},
		"A log can't be read": {
			toml: nginx + web, log: requests(1, "203.0.113.66", "", "GET /", 200), private: true,
		},
		"Everything comes from one address": {
			toml: nginx + "format = \"nginx\"\n" + web, log: proxied,
		},
		"A ban doesn't keep a client away": {
			toml:   "trusted_proxies = [\"10.0.0.0/24\"]\n" + nginx + "format = \"nginx\"\n" + web + program,
			daemon: true, then: proxied, until: " 51 ",
			after: func() string { // younger than the ban
				return requestsAt(time.Now().Add(2*time.Second), 7, "10.0.0.5", "203.0.113.66", "GET /", 200)
			},
			seen: " 58 ",
		},
		"The daemon doesn't start": {
			toml: strings.Replace(strings.Replace(nginx+web, "50", `"50"`, 1), "60s", "60", 1),
		},
		"A reload changes nothing": {
			toml: nginx + web, daemon: true, until: "web", broken: nginx + strings.Replace(web, "window", "windows", 1),
		},
		"Memory": {
			toml: "max_memory = \"1MiB\"\n" + nginx + web, daemon: true, then: crowd(12_000), until: " 12,000 ",
		},
	}
}

// crowd are lines of as many clients.
func crowd(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(requests(1, fmt.Sprintf("198.18.%d.%d", i>>8, i&255), "", "GET /", 200))
	}
	return b.String()
}

// The page shows what the program prints. What differs each time (times, ages,
// widths of columns) is not compared, and "…" stands for what is left out.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(troublesPage)
	if err != nil {
		t.Fatal(err)
	}
	all := troubles()
	block := regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
	for _, section := range strings.Split("\n"+string(text), "\n## ")[1:] {
		head, body, _ := strings.Cut(section, "\n")
		found := block.FindAllStringSubmatch(body, -1)
		tr, ok := all[head]
		delete(all, head)
		if ok != (len(found) > 0) {
			t.Errorf("section %q shows %d commands, and a trouble is known for it: %t", head, len(found), ok)
		}
		if ok && len(found) > 0 {
			t.Run(head, func(t *testing.T) {
				t.Parallel()
				d := tr.begin(t)
				for _, m := range found {
					d.compare(t, m[1])
				}
			})
		}
	}
	for head := range all {
		t.Errorf("%s has no section %q", troublesPage, head)
	}
}

// What the page quotes in tables of what "it says" are parts of messages in the code.
func TestQuotedMessages(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, pattern := range []string{"internal/*/*.go", "state/*.go", "actions/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && !strings.HasSuffix(f, "_test.go") {
				code.Write(text)
			}
		}
	}
	text, err := os.ReadFile(troublesPage)
	if err != nil {
		t.Fatal(err)
	}
	quoted, in := 0, false
	for _, line := range strings.Split(string(text), "\n") {
		first := strings.Trim(cells(line)[0], "`")
		switch {
		case !strings.HasPrefix(line, "|"):
			in = false
		case first == "it says":
			in = true
		case in && !strings.HasPrefix(first, "-"):
			for _, part := range strings.Split(first, "…") {
				quoted++
				if !strings.Contains(code.String(), strings.TrimSpace(part)) {
					t.Errorf("%s quotes %q, which no code says", troublesPage, part)
				}
			}
		}
	}
	if quoted < 10 {
		t.Errorf("only %d messages found", quoted)
	}
}

// lab is a folder that stands for a machine.
type lab struct{ dir string }

// here is a text of the page with paths of the lab, there the other way round.
func (l lab) here(s string) string  { return l.paths(false).Replace(s) }
func (l lab) there(s string) string { return l.paths(true).Replace(s) }

// env names its folders, which the configuration then need not.
func (l lab) env() []string {
	return []string{"STATE_DIRECTORY=" + filepath.Join(l.dir, "state"), "RUNTIME_DIRECTORY=" + filepath.Join(l.dir, "run")}
}

func (l lab) paths(back bool) *strings.Replacer {
	pairs := []string{"/var/log/nginx", "log", "/etc/tailban/jails.toml", "jails.toml", "/var/lib/tailban", "state", "/run/tailban", "run"}
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		page, own := pairs[i], filepath.Join(l.dir, pairs[i+1])
		if back {
			page, own = own, page
		}
		out = append(out, page, own)
	}
	return strings.NewReplacer(out...)
}

func (tr trouble) begin(t *testing.T) lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "tb") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := lab{dir}
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"log", "state", "run"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if tr.private {
		mode = 0o600
	}
	write("log/access.log", tr.log, mode)
	write("jails.toml", l.here(tr.toml), 0o644)
	if !tr.daemon {
		return l
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var log syncbuf.Buffer
	go func() {
		defer close(ended)
		cli.Main(ctx, cli.Process{Args: []string{"run", "-c", filepath.Join(dir, "jails.toml")}, Env: l.env(), Out: &log, Err: &log})
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", log.String())
		}
	})
	l.wait(t, "Jails", "")
	eventually(t, func() bool { return strings.Contains(log.String(), "reading log") }, // what is appended before is old
		func() string { return "the log is not read" })
	if tr.then == skewed {
		l.wait(t, tr.until, skewed)
	} else {
		l.append(t, tr.then)
		l.wait(t, tr.until, "")
	}
	if tr.after != nil {
		l.append(t, tr.after())
		l.wait(t, tr.seen, "")
	}
	if tr.broken != "" {
		write("jails.toml", l.here(tr.broken), 0o644)
	}
	return l
}

func (l lab) append(t *testing.T, lines string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(l.dir, "log/access.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(lines); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until f; what says what there is instead.
func eventually(t *testing.T, f func() bool, what func() string) {
	t.Helper()
	end := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(what())
		}
	}
}

// wait waits until status says a text; if lines are to come meanwhile, one comes
// with each look.
func (l lab) wait(t *testing.T, text, lines string) {
	t.Helper()
	var out string
	eventually(t, func() bool {
		if lines == skewed {
			l.append(t, requestsAt(time.Now().Add(ahead), 1, "203.0.113.66", "", "GET /", 200))
		}
		out = l.run(t, "tailban status")
		return strings.Contains(out, text)
	}, func() string { return fmt.Sprintf("status does not say %q:\n%s", text, out) })
}

// run runs a command of the page.
func (l lab) run(t *testing.T, command string) string {
	t.Helper()
	var args []string
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(strings.TrimPrefix(command, "sudo "), -1) {
		arg := l.here(m[1] + m[2])
		if arg == serviceUser { // who needn't be on this machine
			arg = otherUser
		}
		args = append(args, arg)
	}
	var out bytes.Buffer
	cli.Main(t.Context(), cli.Process{Args: append(args[1:], "-c", filepath.Join(l.dir, "jails.toml")), Env: l.env(), Out: &out, Err: &out})
	return strings.NewReplacer("user "+otherUser, "user "+serviceUser, "u:"+otherUser+":", "u:"+serviceUser+":").Replace(l.there(out.String()))
}

// compare runs the command of a block, and looks for its lines in the output.
func (l lab) compare(t *testing.T, block string) {
	t.Helper()
	command, want, _ := strings.Cut(block, "\n")
	got := l.run(t, strings.TrimPrefix(command, "$ "))
	rest := "\n" + loose(got)
	for _, part := range strings.Split(want, "…\n") {
		if part == "" {
			continue
		}
		_, after, ok := strings.Cut(rest, "\n"+loose(part))
		if !ok {
			t.Errorf("%s does not print, or not in this order:\n%s\nbut:\n%s", command, part, got)
			return
		}
		rest = "\n" + after
	}
	if !strings.HasSuffix(want, "…\n") && strings.TrimSpace(rest) != "" {
		t.Errorf("%s prints more than is shown:\n%s", command, rest)
	}
}

// loose is output without what differs each time.
func loose(s string) string {
	for _, x := range []struct{ re, to string }{
		{`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ?`, "TIME"},
		{`\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d`, "TIME"},
		{`\b(\d+[dhms])+( ago| left)`, "AGE$2"},
		{`[\d,]+ lines a second`, "N lines a second"},
		{`\b\d+ B\b`, "N B"},
		{`process \d+`, "process N"},
		{`tailban (\(devel\)|\d+\.\d+\.\d+),`, "tailban VERSION,"},
		{`, group \w+\)`, ", group NAME)"},
		{`at byte \d+`, "at byte N"},
		{` {2,}`, " "},
	} {
		s = regexp.MustCompile(x.re).ReplaceAllString(s, x.to)
	}
	return s
}
