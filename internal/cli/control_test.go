package cli

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tailban/tailban/internal/control"
	"github.com/tailban/tailban/internal/syncbuf"
)

// serve runs a daemon's sockets, and returns their folder.
func serve(t *testing.T, d control.Operator) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	s := control.NewServer(control.Options{Dir: dir, Daemon: d})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return dir
}

// result is what a command left behind.
type result struct {
	out, err, both string // standard output, standard error, what a terminal shows
	code           int
}

// run runs a command on a screen of 80 columns.
func run(ctx context.Context, dir, in string, args ...string) result {
	var out, err, both syncbuf.Buffer
	code := Main(ctx, Process{
		Args: append([]string{"--socket-dir", dir}, args...), Env: []string{"COLUMNS=80"},
		In: strings.NewReader(in), Out: tee{&out, &both}, Err: tee{&err, &both},
	})
	return result{out: out.String(), err: err.String(), both: both.String(), code: code}
}

type tee [2]*syncbuf.Buffer

func (t tee) Write(p []byte) (int, error) {
	t[1].Write(p)
	return t[0].Write(p)
}

// golden compares with a file of testdata, or writes it if UPDATE is set.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (-want +got):\n%s", path, diff)
	}
}

// What every command shows, to a person and as JSON. The tables of the usual
// cases are in docs/commands.md, which TestDocumentedCommands compares.
func TestControlOutput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args string
		set  func(*fakeDaemon)
		code int
	}{
		{name: "status_json", args: "status --json"},
		{name: "status_calm", args: "status", set: func(d *fakeDaemon) { d.status = calmStatus() }},
		{name: "status_lossy", args: "status", set: func(d *fakeDaemon) { d.status = lossyStatus() }},
		{name: "status_last_good", args: "status", set: func(d *fakeDaemon) { d.status = lastGoodStatus() }},
		{name: "status_lists", args: "status", set: func(d *fakeDaemon) { d.status = refreshedStatus() }},
		{name: "status_lists_json", args: "status --json", set: func(d *fakeDaemon) { d.status = refreshedStatus() }},
		{name: "accept_list_json", args: "lists accept cloudflare --json"},
		{name: "status_check_calm", args: "status --check", set: func(d *fakeDaemon) { d.status = calmStatus() }},
		{name: "status_check_json", args: "status --check --json", code: exitUnhealthy},
		{name: "status_check_calm_json", args: "status --check --json", set: func(d *fakeDaemon) { d.status = calmStatus() }},
		{name: "bans_json", args: "bans --json"},
		{name: "bans_none", args: "bans --jail quiet"},
		{name: "ban_json", args: "ban 203.0.113.0/24 --json"},
		{name: "unban_json", args: "unban 203.0.113.66 --json"},
		{name: "unban_all", args: "unban --all", set: func(d *fakeDaemon) {
			d.unban = &control.UnbanResult{Lifted: 4_211}
			for i := range 1_000 {
				d.unban.Targets = append(d.unban.Targets, netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 32))
			}
		}},
		{name: "unban_none", args: "unban 203.0.113.1", set: func(d *fakeDaemon) { d.unban = &control.UnbanResult{} }},
		{name: "allow_json", args: "allow 198.51.100.7 --for 2h --json"},
		{name: "hold_forever", args: "hold sign-in"},
		{name: "hold_json", args: "hold sign-in --for 1h --json"},
		{name: "resume_json", args: "resume sign-in --json"},
		{name: "confirm_json", args: "confirm --json"},
		{name: "reload_json", args: "reload --json"},
		{name: "reload_same", args: "reload", set: func(d *fakeDaemon) { d.reload = &control.ReloadResult{} }},
		{name: "explain_json", args: "explain 203.0.113.66 --json"},
		{name: "explain_protected", args: "explain 10.0.0.1", set: func(d *fakeDaemon) {
			d.explain = &control.Explanation{
				Now: at(0), Address: netip.MustParseAddr("10.0.0.1"), Target: netip.MustParsePrefix("10.0.0.1/32"),
				Conclusion: control.Protected, Text: "10.0.0.1 can't be banned.", Protected: "it is a trusted proxy",
			}
		}},
		{name: "explain_by_hand", args: "explain 198.51.100.1", set: func(d *fakeDaemon) {
			d.explain = &control.Explanation{
				Now: at(0), Address: netip.MustParseAddr("198.51.100.1"), Target: netip.MustParsePrefix("198.51.100.1/32"),
				Conclusion: control.Banned, Text: "198.51.100.1 is banned.", Bans: sampleBans().Bans[2:],
			}
		}},
		{name: "explain_postponed", args: "explain 203.0.113.77", set: func(d *fakeDaemon) {
			d.explain = &control.Explanation{
				Now: at(0), Address: netip.MustParseAddr("203.0.113.77"), Target: netip.MustParsePrefix("203.0.113.77/32"), Conclusion: control.Postponed, Text: "203.0.113.77 is not banned yet: what jail web decided waits.",
				Named: &control.Named{Result: control.NamesAsked, Reason: "its names are being looked up", Due: at(21), Jails: []string{"web", "sign-in"}},
			}
		}},
		{name: "explain_in_network", args: "explain 203.0.113.77", set: func(d *fakeDaemon) {
			d.explain = &control.Explanation{
				Now: at(0), Address: netip.MustParseAddr("203.0.113.77"), Target: netip.MustParsePrefix("203.0.113.77/32"),
				Conclusion: control.InNetwork, Text: "203.0.113.77 is not banned itself.",
				Networks: []control.InMerged{{Action: "firewall", Network: netip.MustParsePrefix("203.0.113.0/24"), Members: 34, Until: at(20 * minute)}},
			}
		}},
		{name: "explain_as_part", args: "explain 203.0.113.66", set: func(d *fakeDaemon) {
			d.explain = &control.Explanation{
				Now: at(0), Address: netip.MustParseAddr("203.0.113.66"), Target: netip.MustParsePrefix("203.0.113.66/32"),
				Conclusion: control.Banned, Text: "203.0.113.66 is banned.", Bans: asPart().Bans,
			}
		}},
		{name: "bans_as_part", args: "bans --jail merged"},
		{name: "explain_line_json", args: "explain --log nginx --line x --json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newFake()
			if test.set != nil {
				test.set(d)
			}
			r := run(t.Context(), serve(t, d), "", strings.Fields(test.args)...)
			if r.code != test.code {
				t.Errorf("exit code %d, want %d", r.code, test.code)
			}
			if strings.Contains(test.args, "--json") && !json.Valid([]byte(r.out)) {
				t.Error("this is no JSON")
			}
			checkHarmless(t, r.both)
			golden(t, test.name, r.both)
		})
	}
}

// checkHarmless fails if anything in an output could act on a terminal.
func checkHarmless(t *testing.T, out string) {
	t.Helper()
	for _, r := range out {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0x202e {
			t.Errorf("%U is in the output", r)
		}
	}
}

// What is asked of the daemon, for what is written.
func TestControlRequests(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix
	for _, test := range []struct {
		args []string
		want any
		said string // on standard error
	}{
		{args: []string{"bans"}, want: control.BansQuery{Sort: "left"}},
		{
			args: []string{"bans", "203.0.113.0/24", "--jail", "web", "--action", "edge", "--sort", "packets", "--limit", "3"},
			want: control.BansQuery{Overlap: prefix("203.0.113.0/24"), Jail: "web", Action: "edge", Sort: "packets", Limit: 3},
		},
		// A look at an address is at that address alone.
		{args: []string{"bans", "2001:db8::1"}, want: control.BansQuery{Overlap: prefix("2001:db8::1/128"), Sort: "left"}},
		{args: []string{"ban", "203.0.113.66"}, want: control.BanRequest{Target: prefix("203.0.113.66/32")}},
		{args: []string{"ban", "::ffff:203.0.113.66"}, want: control.BanRequest{Target: prefix("203.0.113.66/32")}},
		{args: []string{"ban", "::ffff:203.0.113.0/120"}, want: control.BanRequest{Target: prefix("203.0.113.0/24")}},
		{
			args: []string{"ban", "2001:db8::1", "--for", "7d12h", "--jail", "web", "--reason", "a b", "--force"},
			want: control.BanRequest{Target: prefix("2001:db8::/64"), For: 7*day + 12*hour, Jail: "web", Reason: "a b", Force: true},
			said: "tailban: 2001:db8::1 is taken as its network 2001:db8::/64; 2001:db8::1/128 is the address alone\n",
		},
		{args: []string{"ban", "2001:db8::1/128", "--for", "90s"}, want: control.BanRequest{Target: prefix("2001:db8::1/128"), For: 90}},
		// Behind NAT64 each address is somebody else.
		{args: []string{"ban", "64:ff9b::1"}, want: control.BanRequest{Target: prefix("64:ff9b::1/128")}},
		{args: []string{"unban", "203.0.113.66", "--jail", "web"}, want: control.UnbanRequest{Target: prefix("203.0.113.66/32"), Jail: "web"}},
		{args: []string{"unban", "--all", "--forgive", "1d", "--reason", "r"}, want: control.UnbanRequest{All: true, Forgive: day, Reason: "r"}},
		{args: []string{"unban", "--jail", "web"}, want: control.UnbanRequest{Jail: "web"}},
		{
			args: []string{"allow", "203.0.113.7", "--for", "2h", "--reason", "r"},
			want: control.AllowRequest{Target: prefix("203.0.113.7/32"), For: 2 * hour, Reason: "r"},
		},
		{args: []string{"allow", "--end", "203.0.113.7"}, want: control.AllowRequest{Target: prefix("203.0.113.7/32"), End: true}},
		{args: []string{"hold", "web", "--for", "1h", "--reason", "r"}, want: control.HoldRequest{Jail: "web", For: hour, Reason: "r"}},
		{args: []string{"resume", "web", "--reason", "r"}, want: control.HoldRequest{Jail: "web", Resume: true, Reason: "r"}},
		{args: []string{"lists", "accept", "cloudflare"}, want: control.AcceptListRequest{Name: "cloudflare"}},
		{
			args: []string{"lists", "accept", "cloudflare", "--id", "1f3870be", "--reason", "r"},
			want: control.AcceptListRequest{Name: "cloudflare", ID: "1f3870be", Reason: "r"},
		},
		{args: []string{"explain", "::ffff:203.0.113.66"}, want: netip.MustParseAddr("203.0.113.66")},
		{args: []string{"explain", "--line", `a "b"`, "--log", "shop"}, want: control.LineQuery{Log: "shop", Line: `a "b"`}},
		{args: []string{"explain", "--line", "-", "--log", "nginx"}, want: control.LineQuery{Log: "nginx", Line: "first"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			d := newFake()
			r := run(t.Context(), serve(t, d), "first\r\nsecond\n", test.args...)
			if r.code != exitOK || r.err != test.said {
				t.Errorf("exit code %d, %q; want %q", r.code, r.err, test.said)
			}
			if !reflect.DeepEqual(d.asked, test.want) {
				t.Errorf("asked %#v, want %#v", d.asked, test.want)
			}
		})
	}
}

func TestStatusCheck(t *testing.T) {
	t.Parallel()
	d := newFake()
	r := run(t.Context(), serve(t, d), "", "status", "--check")
	if r.code != exitUnhealthy || r.err != "" {
		t.Errorf("exit code %d, standard error %q", r.code, r.err)
	}
	if n := strings.Count(r.out, "\n"); n != len(d.status.Problems) {
		t.Errorf("%d lines for %d problems:\n%s", n, len(d.status.Problems), r.out)
	}
}
