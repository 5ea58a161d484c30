package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const commandsPage = "../../docs/commands.md"

// The page names every command and every flag, in the command's own section.
func TestDocumentedFlags(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		for _, name := range strings.Split(title, ", ") {
			sections[name] = body
		}
	}
	root := newRoot(&Process{})
	for _, f := range flagNames(root.PersistentFlags().FlagUsages()) {
		if !strings.Contains(string(text), "`"+f+" ") {
			t.Errorf("%s does not name %s", commandsPage, f)
		}
	}
	for _, c := range root.Commands() {
		body, ok := sections[c.Name()]
		if !ok {
			t.Errorf("%s has no section %q", commandsPage, c.Name())
			continue
		}
		for _, f := range flagNames(c.LocalNonPersistentFlags().FlagUsages()) {
			if f != "--help" && !strings.Contains(body, "`"+f+"`") {
				t.Errorf("section %q of %s does not name %s", c.Name(), commandsPage, f)
			}
		}
		delete(sections, c.Name())
	}
	delete(sections, "Exit codes")
	for name := range sections {
		t.Errorf("section %q of %s is of no command", name, commandsPage)
	}
}

// flagNames are the flags of a help text.
func flagNames(usages string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^\s+(?:-\w, )?(--[\w-]+)`).FindAllStringSubmatch(usages, -1) {
		names = append(names, m[1])
	}
	return names
}

// Every command of the page that asks a daemon shows what the page says, with
// the sample. With UPDATE set, the page is written instead.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	update := os.Getenv("UPDATE") != ""
	block := regexp.MustCompile("(?ms)^```console\n\\$ ([^\n]*)\n(.*?)^```$")
	page := block.ReplaceAllStringFunc(string(text), func(b string) string {
		m := block.FindStringSubmatch(b)
		line, want := m[1], m[2]
		args := strings.Fields(line)[1:]
		shown[args[0]] = true
		d := newFake()
		var got string
		if args[0] == "events" {
			d.stay = true
			got, _, _ = followUntil(t, d, len(d.events))
		} else {
			got = run(t.Context(), serve(t, d), "", shellWords(line)[1:]...).both
		}
		if diff := cmp.Diff(want, got); diff != "" && !update {
			t.Errorf("$ %s\nin %s is not what is shown (-page +shown):\n%s", line, commandsPage, diff)
		}
		return "```console\n$ " + line + "\n" + got + "```"
	})
	if update {
		if err := os.WriteFile(commandsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range controlCommands() {
		if name := strings.Fields(c)[0]; !shown[name] {
			t.Errorf("%s has no example of %s", commandsPage, name)
		}
	}
}

// shellWords splits a command line as a shell does, as far as the page needs it.
func shellWords(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}
