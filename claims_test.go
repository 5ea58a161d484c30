package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/cli"
	"github.com/tailban/tailban/internal/config"
)

// What a page says of a configuration is what a replay does: below each
// configuration there may be a table of clients and their requests, which are
// written into a log of its format, and of who is banned at which of them.
func TestClaims(t *testing.T) {
	t.Parallel()
	for page, least := range map[string]int{"docs/cookbook.md": 40, "docs/from-fail2ban.md": 5} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			rows := 0
			for _, c := range claims(t, string(text)) {
				rows += len(c.rows)
				checkClaims(t, page, c)
			}
			if rows < least {
				t.Errorf("%s: only %d rows found: have its tables changed their form?", page, rows)
			}
		})
	}
}

// claim is a configuration of a page with the table below it, the cells of each
// row by their column.
type claim struct {
	head, toml string
	rows       []map[string]string
}

func claims(t *testing.T, page string) []claim {
	t.Helper()
	var out []claim
	var columns []string
	head, block := "", false
	for _, line := range strings.Split(page, "\n") {
		switch {
		case line == "```toml":
			out, block = append(out, claim{head: head}), true
		case block && line == "```":
			block = false
		case block:
			out[len(out)-1].toml += line + "\n"
		case strings.HasPrefix(line, "#"):
			head = strings.TrimLeft(line, "# ")
		case strings.HasPrefix(line, "| client |"):
			columns = cells(line)
		case columns != nil && strings.HasPrefix(line, "| "):
			row := map[string]string{}
			for i, cell := range cells(line) {
				row[columns[i]] = cell
			}
			out[len(out)-1].rows = append(out[len(out)-1].rows, row)
		case !strings.HasPrefix(line, "|"):
			columns = nil
		}
	}
	return out
}

func cells(line string) []string {
	out := strings.Split(strings.Trim(line, "|"), " | ")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// allowedWarnings are what check says of these configurations, and should.
var allowedWarnings = regexp.MustCompile(`enforces nothing: its bans are decided and recorded only`)

func checkClaims(t *testing.T, page string, c claim) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jails.toml")
	if err := os.WriteFile(file, []byte(c.toml), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil)
	if err != nil {
		t.Errorf("%s, %s: %v", page, c.head, err)
		return
	}
	for _, w := range cfg.Warnings() {
		if !allowedWarnings.MatchString(w.Msg) {
			t.Errorf("%s, %s: check warns: %s", page, c.head, w)
		}
	}
	if code := cli.Main(t.Context(), cli.Process{Args: []string{"check", "-c", file}, Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}); code != 0 {
		t.Errorf("%s, %s: check exits with %d", page, c.head, code)
	}
	for _, row := range c.rows {
		log := &cfg.Logs[0]
		for i := range cfg.Logs {
			if "`"+cfg.Logs[i].Name+"`" == row["log"] {
				log = &cfg.Logs[i]
			}
		}
		if got := replayed(t, file, log, row); got != row["banned"] {
			t.Errorf("%s, %s: %s with %s within %s: banned: %s, and the page says %s",
				page, c.head, row["client"], row["requests"], row["within"], got, row["banned"])
		}
	}
}

// replayed writes a row's requests into a log, and says who is banned at which of
// them as the page does.
func replayed(t *testing.T, file string, log *config.Log, row map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(logLines(t, log, row)), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	code := cli.Main(t.Context(), cli.Process{Args: []string{"replay", "-c", file, "--log", log.Name, "--json", path}, Out: &out, Err: &notes})
	if code != 0 || !strings.Contains(notes.String(), "unparsed      0\n") {
		t.Fatalf("exit code %d of a replay of %v:\n%s", code, row, &notes)
	}
	client := strings.Trim(strings.Split(strings.Split(row["client"], " by way of ")[0], ", ")[0], "`")
	var said []string
	dec := json.NewDecoder(&out)
	for dec.More() {
		var d struct {
			Jail, Client, Refused string
			Line, Ban             int
			Observe               bool
		}
		if err := dec.Decode(&d); err != nil {
			t.Fatal(err)
		}
		if d.Refused != "" {
			continue
		}
		s := fmt.Sprintf("`%s` at %d, for %s", d.Jail, d.Line, config.FormatDuration(time.Duration(d.Ban)*time.Second))
		if d.Observe {
			s += ", observed"
		}
		if d.Client != client && strings.Contains(row["client"], "by way of") {
			s += ": `" + d.Client + "`"
		}
		said = append(said, s)
	}
	if said == nil {
		return "no"
	}
	return strings.Join(said, "; ")
}

// logLines are a row's requests as lines of a log.
func logLines(t *testing.T, log *config.Log, row map[string]string) string {
	t.Helper()
	within, err := config.ParseDuration(row["within"])
	if err != nil {
		t.Fatalf("within %q: %v", row["within"], err)
	}
	clients, by, _ := strings.Cut(row["client"], " by way of ")
	agent := strings.Trim(row["agent"], "`")
	if agent == "" {
		agent = "Mozilla/5.0"
	}
	one := regexp.MustCompile("^(\\d+) × `([A-Z]+) (\\S+)(?: (\\d{3}))?`$")
	var requests [][]string
	for _, r := range strings.Split(row["requests"], ", ") {
		m := one.FindStringSubmatch(r)
		if m == nil {
			t.Fatalf("no requests: %q", r)
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if m[4] == "" {
			m[4] = "200"
		}
		for range n {
			requests = append(requests, m[2:])
		}
	}
	var b strings.Builder
	at := time.Date(2026, 3, 12, 8, 0, 0, 0, time.UTC)
	from := strings.Split(clients, ", ")
	for i, r := range requests {
		l := line{
			at:   at.Add(within * time.Duration(i) / time.Duration(len(requests))),
			peer: strings.Trim(from[i%len(from)], "`"), header: "-",
			request: r[0] + " " + r[1] + " HTTP/1.1", status: r[2], agent: agent,
		}
		if by != "" {
			l.peer, l.header = strings.Trim(by, "`"), l.peer
		}
		b.WriteString(l.in(t, log))
	}
	return b.String()
}

// line is a request that was logged.
type line struct {
	at                                   time.Time
	peer, header, request, status, agent string
}

// in writes it as a server does with the format of the log.
func (l line) in(t *testing.T, log *config.Log) string {
	t.Helper()
	s := fmt.Sprintf(`%s - - [%s] "%s" %s 612 "-" "%s"`, l.peer, l.at.Format("02/Jan/2006:15:04:05 -0700"), l.request, l.status, l.agent)
	switch log.Format {
	case "combined":
	case "nginx":
		s += ` "` + l.header + `"`
	case "vhost_combined":
		s = "blog.example.net:443 " + s
	case "haproxy":
		s = fmt.Sprintf(`%s lb haproxy[812]: %s:40112 [%s] www web/one 0/0/1/2/3 %s 612 - - ---- 1/1/0/0/0 0/0 "%s"`,
			l.at.Format(time.Stamp), l.peer, l.at.Format("02/Jan/2006:15:04:05.000"), l.status, l.request)
	default:
		t.Fatalf("no lines of format %q here", log.Format)
	}
	if log.Container == "docker" {
		wrapped, err := json.Marshal(map[string]string{"log": s + "\n", "stream": "stdout", "time": l.at.Format(time.RFC3339Nano)})
		if err != nil {
			t.Fatal(err)
		}
		s = string(wrapped)
	}
	return s + "\n"
}
