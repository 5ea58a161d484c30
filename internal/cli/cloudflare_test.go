package cli_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailban/tailban/internal/cli"
	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// cloud is a double of Cloudflare, and a configuration that uses it.
type cloud struct {
	*testing.T
	double      *fake.Server
	url         string
	dir         string
	token, path string
}

func newCloud(t *testing.T, o fake.Options) *cloud {
	t.Helper()
	o.Delay = time.Nanosecond
	c := &cloud{T: t, double: fake.New(o), dir: t.TempDir()}
	server := httptest.NewServer(c.double.Handler())
	t.Cleanup(server.Close)
	c.url = server.URL + "/client/v4"
	c.token, c.path = filepath.Join(c.dir, "token"), filepath.Join(c.dir, "jails.toml")
	c.write(c.token, fake.Secret)
	c.write(c.path, fmt.Sprintf(`state_dir = %q
trusted_proxies = ["cloudflare"]
[logs.site]
files = %q
format = "nginx"
[jails.web]
limit = 5
window = "60s"
ban = "1h"
[actions.edge]
type = "cloudflare"
account = %q
token_file = %q
api_base = %q
instance = "web-1"
zones = [%q]
`, c.dir, filepath.Join(c.dir, "access.log"), fake.AccountID, c.token, c.url, fake.ZoneID))
	return c
}

func (c *cloud) write(path, text string) {
	c.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

// run runs a command, and fails if it does not exit with code.
func (c *cloud) run(code int, args ...string) (out, notes string) {
	c.Helper()
	var o, e bytes.Buffer
	if got := cli.Main(c.Context(), cli.Process{Args: args, Out: &o, Err: &e}); got != code {
		c.Fatalf("%v exits with %d, want %d:\n%s%s", args, got, code, &o, &e)
	}
	if strings.Contains(o.String()+e.String(), fake.Secret) {
		c.Error("the token is shown")
	}
	return o.String(), e.String()
}

// fill puts items of ours and of others into the list.
func (c *cloud) fill() {
	c.Helper()
	tag := func(instance string, left time.Duration) string {
		return "tailban/" + instance + " until=" + time.Now().Add(left).UTC().Format(time.RFC3339)
	}
	const over, runs = -time.Minute, time.Hour
	for ip, comment := range map[string]string{
		"192.0.2.1": tag("web-1", over), "192.0.2.2": tag("web-2", over), "192.0.2.3": tag("web-1", runs),
		"192.0.2.4": tag("web-2", runs), "192.0.2.5": "by hand",
	} {
		if err := c.double.AddForeignItems("tailban", fake.Item{IP: ip, Comment: comment}); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cloud) items() string {
	var list []string
	for _, it := range c.double.Items("tailban") {
		list = append(list, it.IP)
	}
	return strings.Join(list, " ")
}

// TestSweep is that what is over goes, whoever put it in, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"configuration", "flags"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t, fake.Options{})
			c.fill()
			args := []string{"cloudflare", "sweep", "-c", c.path}
			if name == "flags" {
				args = []string{"cloudflare", "sweep", "--account", fake.AccountID, "--token-file", c.token, "--api-base", c.url}
			}
			out, _ := c.run(0, args...)
			if want := "2 bans that were over removed from list tailban of account " + fake.AccountID + "\n"; out != want {
				t.Errorf("it says %q, want %q", out, want)
			}
			if got := c.items(); got != "192.0.2.3 192.0.2.4 192.0.2.5" {
				t.Errorf("the list has %s", got)
			}
			if out, _ := c.run(0, args...); !strings.HasPrefix(out, "0 bans ") {
				t.Errorf("again it says %q", out)
			}
		})
	}
}

// TestSweepOfNothing is what can't be swept.
func TestSweepOfNothing(t *testing.T) {
	t.Parallel()
	c := newCloud(t, fake.Options{})
	for _, x := range []struct {
		code int
		args []string
		want string
	}{
		{1, []string{"-c", c.path}, `has no list "tailban"`},
		{2, []string{"--account", fake.AccountID}, "belong together"},
		{2, []string{"--account", "x", "--token-file", c.token}, `"x" is no id of an account`},
		{2, []string{"--account", fake.AccountID, "--token-file", c.token, "--api-base", "http://example.com"}, "is no address of the API"},
		{1, []string{"--account", fake.AccountID, "--token-file", c.token + "x", "--api-base", c.url}, "no such file"},
	} {
		if _, notes := c.run(x.code, append([]string{"cloudflare", "sweep"}, x.args...)...); !strings.Contains(notes, x.want) {
			t.Errorf("%v says %q, want %q", x.args, notes, x.want)
		}
	}
}

// TestTeardownAtTheEdge is that the items of this host go, and the rule if nobody
// else needs it.
func TestTeardownAtTheEdge(t *testing.T) {
	t.Parallel()
	c := newCloud(t, fake.Options{})
	c.fill()
	out, _ := c.run(0, "teardown", "-c", c.path, "--socket-dir", c.dir)
	if want := "2 bans of action edge removed from list tailban at Cloudflare\n"; out != want {
		t.Errorf("it says %q, want %q", out, want)
	}
	if got := c.items(); got != "192.0.2.2 192.0.2.4 192.0.2.5" {
		t.Errorf("the list has %s", got)
	}
}

// TestCheckOnline is what is told of an account, and that nothing is changed there.
func TestCheckOnline(t *testing.T) {
	t.Parallel()
	c := newCloud(t, fake.Options{Tokens: []fake.Token{{Secret: fake.Secret, Permissions: []fake.Permission{fake.ListsRead, fake.ZoneWAFRead}}}})
	_, notes := c.run(1, "check", "--online", "-c", c.path)
	if want := "tailban: 1 problem at Cloudflare"; !strings.Contains(notes, want) {
		t.Errorf("without a list it says %q, want %q", notes, want)
	}
	c.fill()
	out, _ := c.run(0, "check", "--online", "-c", c.path)
	_, out, _ = strings.Cut(out, "At Cloudflare, for action edge\n")
	want := "  the list tailban has 5 items\n  all lists of the account have 5 items, of 10000 that fit\n  zone " + fake.ZoneID + " has no rule yet: one will be made\n"
	if out != want {
		t.Errorf("it says\n%swant\n%s", out, want)
	}
	log, _ := c.double.Requests()
	for _, r := range log {
		if r.Method != "GET" {
			t.Errorf("it has asked for %s %s", r.Method, r.Path)
		}
	}
	c.write(c.token, strings.Repeat("x", 40))
	if out, _ := c.run(1, "check", "--online", "-c", c.path); !strings.Contains(out, "problem: cloudflare: look for the list: the token is not accepted") {
		t.Errorf("with a wrong token it says\n%s", out)
	}
}

// asRules has the configuration be of access rules, and puts some of ours and of
// others in.
func (c *cloud) asRules(zones string) {
	c.Helper()
	text, err := os.ReadFile(c.path)
	if err != nil {
		c.Fatal(err)
	}
	config, _, _ := strings.Cut(string(text), "zones = ")
	c.write(c.path, config+"mode = \"access_rules\"\n"+zones)
	owner := fake.AccountID
	if zones != "" {
		owner = fake.ZoneID
	}
	tag := func(instance string, left time.Duration) string {
		return "tailban/" + instance + " until=" + time.Now().Add(left).UTC().Format(time.RFC3339)
	}
	const over, runs = -time.Minute, time.Hour
	for _, r := range []fake.Rule{
		{Value: "192.0.2.1", Description: tag("web-1", over)}, {Value: "192.0.2.2", Description: tag("web-2", over)}, {Value: "192.0.2.3", Description: tag("web-1", runs)},
		{Value: "192.0.2.4", Description: tag("web-2", runs)}, {Value: "192.0.2.5", Description: "by hand"},
	} {
		r.Action, r.Target = "block", "ip"
		if _, err := c.double.AddForeignAccessRule(owner, r); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cloud) rules(owner string) string {
	var list []string
	for _, r := range c.double.AccessRules(owner) {
		list = append(list, r.Value)
	}
	return strings.Join(list, " ")
}

// TestSweepOfRules is TestSweep for access rules.
func TestSweepOfRules(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ name, zones, owner, where string }{
		{"of the account", "", fake.AccountID, "account " + fake.AccountID},
		{"of a zone", fmt.Sprintf("zones = %q\n", fake.ZoneID), fake.ZoneID, "zone " + fake.ZoneID},
	} {
		for _, by := range []string{"configuration", "flags"} {
			t.Run(x.name+" by "+by, func(t *testing.T) {
				t.Parallel()
				c := newCloud(t, fake.Options{})
				c.asRules(x.zones)
				args := []string{"cloudflare", "sweep", "-c", c.path}
				if by == "flags" {
					args = []string{"cloudflare", "sweep", "--account", fake.AccountID, "--token-file", c.token, "--api-base", c.url, "--access-rules"}
					if x.zones != "" {
						args = append(args, "--zone", fake.ZoneID)
					}
				}
				out, _ := c.run(0, args...)
				if want := "2 access rules that were over removed from Cloudflare " + x.where + "\n"; out != want {
					t.Errorf("it says %q, want %q", out, want)
				}
				if got := c.rules(x.owner); got != "192.0.2.3 192.0.2.4 192.0.2.5" {
					t.Errorf("the rules are %s", got)
				}
			})
		}
	}
	c := newCloud(t, fake.Options{})
	for _, args := range [][]string{{"--access-rules"}, {"--account", fake.AccountID, "--token-file", c.token, "--zone", fake.ZoneID}} {
		if _, notes := c.run(2, append([]string{"cloudflare", "sweep", "-c", c.path}, args...)...); !strings.Contains(notes, "--zone is for --access-rules") {
			t.Errorf("%v says %q", args, notes)
		}
	}
}

// TestTeardownOfRules is TestTeardownAtTheEdge for access rules.
func TestTeardownOfRules(t *testing.T) {
	t.Parallel()
	c := newCloud(t, fake.Options{})
	c.asRules("")
	out, _ := c.run(0, "teardown", "-c", c.path, "--socket-dir", c.dir)
	if want := "2 access rules of action edge removed from Cloudflare account " + fake.AccountID + "\n"; out != want {
		t.Errorf("it says %q, want %q", out, want)
	}
	if got := c.rules(fake.AccountID); got != "192.0.2.2 192.0.2.4 192.0.2.5" {
		t.Errorf("the rules are %s", got)
	}
}

// TestCheckOnlineOfRules is what is told of access rules, and that nothing is changed.
func TestCheckOnlineOfRules(t *testing.T) {
	t.Parallel()
	c := newCloud(t, fake.Options{Tokens: []fake.Token{{Secret: fake.Secret, Permissions: []fake.Permission{fake.AccessRead}}}})
	c.asRules("")
	out, _ := c.run(0, "check", "--online", "-c", c.path)
	_, out, _ = strings.Cut(out, "At Cloudflare, for action edge\n")
	if want := "  account " + fake.AccountID + " has 5 access rules, of 50000 that fit into the account\n"; out != want {
		t.Errorf("it says\n%swant\n%s", out, want)
	}
	log, _ := c.double.Requests()
	if len(log) != 1 || log[0].Method != "GET" {
		t.Errorf("it has asked for %+v", log)
	}
	c.double.Change(func(o *fake.Options) { o.Tokens[0].Permissions = []fake.Permission{fake.ListsEdit} })
	if out, _ := c.run(1, "check", "--online", "-c", c.path); !strings.Contains(out, "problem: cloudflare: list access rules of account "+fake.AccountID+": the token lacks the permission Account > Account Firewall Access Rules > Edit") {
		t.Errorf("without the permission it says\n%s", out)
	}
}
