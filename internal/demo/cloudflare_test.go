package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/config"
	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/syncbuf"
)

// binDir is where the programs are built; TestMain removes it.
var binDir string

func TestMain(m *testing.M) {
	var err error
	if binDir, err = os.MkdirTemp("", "tailban-demo-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(binDir)
	os.Exit(code)
}

// built makes both programs, once for all tests.
var built = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", binDir+string(filepath.Separator), ".", "./internal/demo")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
})

// demo is the demonstration about Cloudflare with a configuration, that is started
// as make does it.
func demo(t *testing.T, config string) (cmd *exec.Cmd, out *syncbuf.Buffer) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	if err := netlab.Available(); err != nil {
		t.Skip("network namespaces cannot be made here: ", err)
	}
	if _, err := findNginx(); err != nil {
		t.Skip("needs nginx")
	}
	if err := built(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cloudflare.toml")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	out = &syncbuf.Buffer{}
	cmd = exec.CommandContext(t.Context(), filepath.Join(binDir, "demo"), "cloudflare", filepath.Join(binDir, "tailban"), path)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// ended fails the test unless a demonstration ends with an exit code, and nothing of
// it goes on.
func ended(t *testing.T, cmd *exec.Cmd, out *syncbuf.Buffer, code int) {
	t.Helper()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("it exits with %d, want %d:\n%s", got, code, out.String())
	}
	if err := waitFor(t.Context(), 2*time.Second, func() bool { return len(group(t, cmd.Process.Pid)) == 0 }); err != nil {
		t.Errorf("some of its processes still run: %q", group(t, cmd.Process.Pid))
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// group lists the processes of a process group that run. Those that were killed are
// there until somebody has reaped them.
func group(t *testing.T, id int) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		name, rest, _ := strings.Cut(string(text), ") ")
		var state string
		var parent, in int
		if _, err := fmt.Sscan(rest, &state, &parent, &in); err == nil && in == id && state != "Z" {
			found = append(found, name)
		}
	}
	return found
}

func configuration(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("cloudflare.toml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestConfigurationIsWithoutWarnings(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("cloudflare.toml", []byte(configuration(t)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Warnings() {
		t.Error(w)
	}
}

// All is seen, and the documentation shows parts of what is printed.
func TestCloudflareAsDocumented(t *testing.T) {
	t.Parallel()
	cmd, out := demo(t, configuration(t))
	ended(t, cmd, out, 0)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cloudflare.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, sample, ok := strings.Cut(string(text), "make run-cloudflare\n```\n")
	if ok {
		_, sample, ok = strings.Cut(sample, "```\n")
	}
	sample, _, end := strings.Cut(sample, "```\n")
	if !ok || !end {
		t.Fatal("docs/cloudflare.md shows no output of make run-cloudflare")
	}
	rest := alike(out.String())
	for line := range strings.Lines(alike(sample)) {
		if line == "…\n" {
			continue
		}
		_, after, ok := strings.Cut("\n"+rest, "\n"+line)
		if !ok {
			t.Fatalf("docs/cloudflare.md has this, which is not printed, or not in this order:\n%s\nprinted:\n%s", line, out.String())
		}
		rest = after
	}
}

// alike makes the same of two runs: times differ, and how often the API is asked how
// far it is.
func alike(text string) string {
	for _, x := range [][2]string{
		{`(?m)^( +)[0-9]+\.[0-9]+s  `, " SECONDS  "},
		{`(?m)^ +API: .*`, " API"},
		{`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z|[0-9]{2}/[A-Z][a-z]{2}/[0-9:]+ [+-][0-9]{4}|[0-9]{2}:[0-9]{2}:[0-9]{2}`, "TIME"},
		{`lt [0-9]+\)`, "lt TIME)"},
		{`[0-9]+ pages`, "N pages"},
		{`[0-9]+m[0-9]+s`, "DURATION"},
		{`in [0-9]+ s;`, "in N s;"},
	} {
		text = regexp.MustCompile(x[0]).ReplaceAllString(text, x[1])
	}
	return text
}

// What isn't seen that should be makes it fail, and it says where.
func TestCloudflareFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, old, new, want string
	}{
		{"no rule", `zones `, `#`, "step 2: there is no rule"},
		{"no proof", `"192.0.2.0/24"`, `"192.0.2.0/32"`, "step 7: tailban's first ban is"},
		{"forged", `["cloudflare"]`, `["cloudflare", "203.0.113.77"]`, "step 9: "},
		{"no such key", `sync_every  =`, `sync =`, "step 2: tailban did not get ready"},
	}
	for _, x := range tests {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(configuration(t), x.old, x.new, 1)
			if x.name == "no rule" {
				text = strings.Replace(text, "lease ", "#", 1)
			}
			cmd, out := demo(t, text)
			ended(t, cmd, out, 1)
			if !strings.Contains(out.String(), "\ndemo: "+x.want) {
				t.Errorf("it doesn't say %q:\n%s", x.want, out.String())
			}
		})
	}
}

// Who has seen enough gets everything cleaned up.
func TestCloudflareInterrupted(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			cmd, out := demo(t, configuration(t))
			err := waitFor(t.Context(), 20*time.Second, func() bool { return strings.Contains(out.String(), "\n 5. ") })
			if err != nil {
				t.Error("it does not get to its step 5")
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			code := 1
			if sig == syscall.SIGKILL {
				code = -1
			}
			ended(t, cmd, out, code)
			if sig != syscall.SIGKILL && !strings.Contains(out.String(), "demo: interrupted") {
				t.Errorf("it doesn't say so:\n%s", out.String())
			}
		})
	}
}
