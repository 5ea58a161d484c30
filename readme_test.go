package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tailban/tailban/internal/cli"
	"github.com/tailban/tailban/internal/config"
)

// Every configuration in the documentation is one that the program takes.
// (Its commands are run by .ci/readme.)
func TestDocumentedConfigurations(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```toml\n(.*?)^```$")
	found := 0
	for _, file := range pages(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllSubmatch(text, -1) {
			found++
			if _, err := config.Parse(file, m[1], nil); err != nil {
				t.Errorf("%v\nin:\n%s", err, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no configuration found: has the README changed its fences?")
	}
}

// pages are the files of the documentation.
func pages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) < 9 {
		t.Fatalf("pages found: %q %v", files, err)
	}
	return append(files, "README.md", "CHANGELOG.md")
}

// The README shows what a replay prints: that of the tests' log, but for the
// speed.
func TestReplayAsDocumented(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	if code := cli.Main(t.Context(), cli.Process{Args: []string{"replay", "testdata/shop.log"}, Out: &out, Err: &notes}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &notes)
	}
	speed := regexp.MustCompile(`[0-9,]+ lines a second`)
	got := speed.ReplaceAllString(strings.ReplaceAll(out.String(), "testdata/shop.log", "/var/log/nginx/access.log"), "N lines a second")
	if !strings.Contains(speed.ReplaceAllString(string(readme), "N lines a second"), "```\n"+got+"```\n") {
		t.Errorf("the README doesn't show this:\n%s", got)
	}
}

// The README's samples of commands that ask a daemon are parts of those in
// docs/commands.md, which are what the commands print.
func TestShortenedSamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, err := os.ReadFile("docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
	found := block.FindAllSubmatch(readme, -1)
	if len(found) == 0 {
		t.Error("no sample found: has the README changed its fences?")
	}
	for _, m := range found {
		command, _, _ := strings.Cut(string(m[1]), "\n")
		_, sample, _ := strings.Cut(string(commands), "```console\n"+command+"\n")
		sample, _, _ = strings.Cut(sample, "```\n")
		for _, part := range strings.Split(string(m[1])[len(command)+1:], "…\n") {
			_, rest, ok := strings.Cut("\n"+sample, "\n"+part)
			if !ok {
				t.Errorf("docs/commands.md does not show this, or not in this order, below %q:\n%s", command, part)
			}
			sample = rest
		}
	}
}
