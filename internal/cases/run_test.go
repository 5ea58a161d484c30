package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/replay"
)

// outcome is what a replay made of some lines.
type outcome struct {
	bans     []string // targets, sorted
	refused  []string
	warnings []string // of the configuration
	summary  string
}

// run replays lines with a configuration; ${LOG} in it stands for the file.
func run(t *testing.T, conf, lines string) outcome {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("jails.toml", []byte(conf), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	if err := replay.Run(context.Background(), replay.Options{
		Config: c, Files: []string{path}, Out: &out, Notes: &notes, JSON: true, Now: time.Now,
	}); err != nil {
		t.Fatal(err)
	}
	o := outcome{summary: notes.String()}
	for _, w := range c.Warnings() {
		o.warnings = append(o.warnings, w.String())
	}
	for dec := json.NewDecoder(&out); dec.More(); {
		var d struct{ Target, Refused string }
		if err := dec.Decode(&d); err != nil {
			t.Fatal(err)
		}
		if d.Refused != "" {
			o.refused = append(o.refused, d.Target)
		} else {
			o.bans = append(o.bans, d.Target)
		}
	}
	slices.Sort(o.bans)
	return o
}

// wants checks who is banned: these and nobody else.
func (o *outcome) wants(t *testing.T, bans ...string) {
	t.Helper()
	if !slices.Equal(o.bans, bans) {
		t.Errorf("banned %v, want %v\n%s", o.bans, bans, o.summary)
	}
}

// says checks that the summary has a text.
func (o *outcome) says(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(o.summary, text) {
		t.Errorf("no %q in the summary:\n%s", text, o.summary)
	}
}

// refuses checks that a configuration is not accepted, and why.
func refuses(t *testing.T, conf string, want ...string) {
	t.Helper()
	_, err := config.Parse("jails.toml", []byte(conf), nil)
	var problems config.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("accepted, or another error: %v", err)
	}
	if got := strings.Split(problems.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A log and a jail, to which tests add what they are about. More than limit
// failures within ten minutes ban.
func failures(log string, limit string) string {
	return `
[logs.a]
files = "/var/log/a.log"
` + log + `
[jails.failures]
where = { status = [400, 401, 404, 414] }
limit = ` + limit + `
window = "10m"
ban = "1h"
[actions.firewall]
type = "nftables"
`
}
