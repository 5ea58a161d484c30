package cli

import (
	"context"
	"net/netip"
	"time"

	"github.com/tailban/tailban/internal/control"
)

// at is a time of the sample, in seconds from its now.
func at(seconds int) time.Time {
	return time.Date(2026, 11, 30, 4, 32, 16, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func ptr[T any](v T) *T { return &v }

const (
	minute = 60
	hour   = 3600
	day    = 86400
)

// busyStatus is a daemon with much to do, and with troubles of all kinds.
func busyStatus() *control.Status {
	return &control.Status{
		Version: "1.4.0", PID: 812, Now: at(0), Started: at(-12*day - 4*hour),
		Config:  control.ConfigStatus{Path: "/etc/tailban/jails.toml", Loaded: at(-2*hour - 22*minute), Refused: at(-minute)},
		State:   control.StateStatus{Pending: 2, Since: at(0), Commits: 120_411, Failures: 3},
		Wait:    0.0125,
		Healthy: false,
		Problems: []control.Problem{
			{Kind: "failing", Where: "action edge", Text: "no answer from 192.0.2.80:443: i/o timeout", Since: at(-14 * minute)},
			{Kind: "failing", Where: "log nginx", Text: "/var/log/nginx/api-access.log can't be read: permission denied"},
			{Kind: "blind", Where: "log shop", Text: `most lines don't parse as %h %l %u %t "%r" %>s %b: its jails see little or nothing`},
			{Kind: "held", Where: "jail scanner", Text: "it only observes, until 2026-11-30T05:12:16Z: release of the shop", Since: at(-20 * minute)},
		},
		Jails: []control.JailStatus{
			{
				Name: "web", Mode: control.ModeEnforce, Logs: []string{"nginx"}, Limit: 50, Window: 60, Ban: []float64{hour, 6 * hour, day},
				Actions: []string{"firewall"}, Matched: 18_204_331, Decisions: 3_482, Bans: 412, LastBan: at(-41),
			},
			{
				Name: "sign-in", Mode: control.ModeEnforce, Logs: []string{"nginx", "shop"}, Limit: 10, Window: 60, Ban: []float64{hour},
				Actions: []string{"firewall", "edge"}, Matched: 48_120, Decisions: 921, Refused: 3, Bans: 87, LastBan: at(-3 * minute),
			},
			{
				Name: "scanner", Mode: control.ModeHeld, Held: &control.Held{Since: at(-20 * minute), Until: at(40 * minute), Reason: "release of the shop", By: "uid 1000"},
				Logs: []string{"nginx"}, Limit: 20, Window: 60, Ban: []float64{day}, Actions: []string{"firewall"},
				Matched: 9_114, Decisions: 205, LastBan: at(-5 * hour),
			},
			{Name: "hotlinks", Mode: control.ModeObserve, Logs: []string{"shop"}, Limit: 200, Window: 600, Ban: []float64{hour}, Matched: 77},
		},
		Logs: []control.LogStatus{
			{
				Name: "nginx", Format: "nginx", Lines: 24_118_870, Bytes: 5_120_000_000,
				Steps: map[string]uint64{"unparsed": 12, "counted": 17_000_000}, Unparsed: 12, Behind: 0,
				LastLine: at(0), LastEvent: at(-1),
				Files: []control.FileStatus{
					{Path: "/var/log/nginx/access.log", State: "following", Offset: 91_234_567, Last: at(0)},
					{Path: "/var/log/nginx/api-access.log", State: "failing", Err: "permission denied"},
				},
			},
			{
				Name: "shop", Format: "%h %l %u %t \"%r\" %>s %b", Lines: 5_012, Bytes: 900_000,
				Steps: map[string]uint64{"not a record": 12, "unparsed": 4_750}, Unparsed: 4_750, Cut: 2, Gaps: 1, Blind: true, Behind: 3_407_872,
				LastLine: at(-8), LastEvent: at(-hour - 8), Polling: true,
				Files: []control.FileStatus{{Path: "/var/log/apache2/shop.log", State: "following", Offset: 900_000}},
			},
		},
		Actions: []control.ActionStatus{
			{
				Name: "firewall", Type: "nftables", Since: at(-12 * day), Desired: 499, LastPass: at(-22),
				DriftAdded: 12, DriftRemoved: 3, DriftCorrected: 1, Repairs: 2, Seen: 1_318, SeenForwarded: 1_204,
			},
			{
				Name: "edge", Type: "command", Failing: true, Since: at(-14 * minute), Err: "no answer from 192.0.2.80:443: i/o timeout",
				Desired: 87, Pending: 9, LastPass: at(-15 * minute), Rejected: 4,
			},
		},
		Notify: []control.NotifyStatus{
			{Name: "chat", Format: "slack", Since: at(-3 * day), Sent: 1_204, LastSent: at(-41)},
			{Name: "ops", Format: "json", Failing: true, Since: at(-5 * minute), Err: "it answers 503 Service Unavailable", Sent: 12, LastSent: at(-6 * hour), Waiting: 31, Lost: 2},
			{Name: "phone", Format: "ntfy"},
		},
		Budgets: []control.Budget{
			{Name: "bans", Unit: "targets", Used: 499, Limit: 100_000},
			{Name: "memory of windows", Unit: "bytes", Used: 41_943_040, Limit: 67_108_864},
			{Name: "offences", Unit: "records", Used: 199_990, Limit: 200_000, Dropped: 312},
		},
		Bans: 499,
	}
}

// calmStatus is a daemon without troubles.
func calmStatus() *control.Status {
	s := busyStatus()
	s.Healthy, s.Problems = true, []control.Problem{}
	s.Jails, s.Logs, s.Actions, s.Budgets, s.Notify = s.Jails[:1], s.Logs[:1], s.Actions[:1], s.Budgets[:2], nil
	s.Logs[0].Files = s.Logs[0].Files[:1]
	return s
}

// lossyStatus is that of logs of which all kinds of things were lost.
func lossyStatus() *control.Status {
	s := calmStatus()
	s.Proofs = &control.ProofStatus{LookUps: 12_004, Proved: 311, Disproved: 1_204, Failed: 7, Spared: 1, Waiting: 3, Postponed: 2}
	s.Actions[0].Programs = &control.ProgramStatus{Runs: 12_400, Failures: 31, Timeouts: 2}
	s.Actions[0].Cut = &control.CutStatus{Connections: 1_312, Failed: 1, Dropped: 2}
	s.Actions[0].Overdue, s.Actions[0].OverdueSince = 7, at(-3*minute)
	s.Actions[0].OverdueErr = "unban 198.51.100.8/32: /usr/local/bin/router: exit status 4: busy"
	s.Actions[0].Merged = &control.MergeStatus{Networks: 3, Members: 1_204, Merges: 5, Splits: 2}
	s.Actions[0].Edge = &control.EdgeStatus{
		List: "tailban", Items: 1_204, Others: 31, Covered: 2, Waiting: 17, Unused: true, Requests: 9_114, Writes: 1_312, Changes: 40_208, Removed: 12_003,
		Leases: []control.Lease{
			{Zone: "f0e0d0c0b0a000998877665544332211", Deadline: at(40 * minute)},
			{Zone: "f1e0d0c0b0a000998877665544332211", Deadline: at(20 * minute), Err: "no answer", Since: at(-3 * minute)},
			{Zone: "f2e0d0c0b0a000998877665544332211", Deadline: at(-20 * minute), Err: "no answer", Since: at(-3 * minute)},
			{Zone: "f3e0d0c0b0a000998877665544332211", Err: "no answer", Since: at(-3 * minute)},
			{Zone: "f4e0d0c0b0a000998877665544332211", Deadline: at(40 * minute), Off: true},
		},
	}
	s.Budgets = append(s.Budgets,
		control.Budget{Name: "edge: requests", Unit: "requests", Used: 131, Limit: 200},
		control.Budget{Name: "edge: writes", Unit: "requests", Used: 12, Limit: 5_000},
		control.Budget{Name: "edge: changed items", Unit: "items", Used: 40_208, Limit: 100_000})
	rules := s.Actions[0]
	rules.Name, rules.Cut, rules.Merged, rules.Programs = "rules", nil, nil, nil
	rules.Edge = &control.EdgeStatus{Rules: "Cloudflare account 0a0b0c0d0e0f00112233445566778899", Items: 1_204, Others: 31, Covered: 2, Requests: 9_114, Changes: 3_208, Removed: 1_003}
	s.Actions = append(s.Actions, rules)
	file := &s.Logs[0]
	file.Cut, file.Late, file.Gaps, file.GapBytes, file.Errors = 1, 1_204, 2, 3_400_000, 7
	file.Files = append(file.Files,
		control.FileStatus{Path: "/srv/www/shop.example.org/logs/access.log", State: "refused", Err: "everybody may write to the folder /srv/www/shop.example.org/logs"},
		control.FileStatus{Path: "/var/log/nginx/api.log", State: "waiting"},
	)
	s.Logs = append(s.Logs, control.LogStatus{
		Name: "syslog", Format: "nginx", Lines: 90_112, Dropped: 4_811, Refused: 12, Malformed: 1, Gaps: 1, LastLine: at(-3), LastEvent: at(-3),
		Files: []control.FileStatus{{Path: "unix:/run/tailban-log/nginx.sock", State: "following"}},
	})
	return s
}

// lastGoodStatus is a daemon that started with a broken configuration.
func lastGoodStatus() *control.Status {
	s := calmStatus()
	s.Healthy = false
	s.Config.LastGood = true
	s.Config.Problems = []string{`/etc/tailban/jails.toml:12: jails.web.limit: must be a number, is "fifty"`}
	s.Problems = []control.Problem{{Kind: "config", Where: "/etc/tailban/jails.toml", Text: "1 problem"}}
	return s
}

// refreshedStatus is a daemon that keeps lists current.
func refreshedStatus() *control.Status {
	s := calmStatus()
	s.Healthy = false
	s.Problems = []control.Problem{{Kind: "waiting", Where: "list cloudflare", Text: "what was published is not used", Since: at(-3 * hour)}}
	s.Lists = []control.ListStatus{
		{
			Name: "cloudflare", Ranges: 22, Date: "2026-02-11", Sources: []string{"https://x.example/4", "https://x.example/6"}, Checked: at(-3 * hour), Next: at(20 * hour),
			Waiting: &control.WaitingList{
				ID: "1f3870be", Why: "it adds to whom trusted_proxies believes", Since: at(-3 * hour), Added: 7, Removed: 1,
				Widest: []netip.Prefix{netip.MustParsePrefix("20.0.0.0/9"), netip.MustParsePrefix("2400::/32")},
			},
		},
		{
			Name: "googlebot", Ranges: 59, Date: "2026-05-03", Fetched: true, Sources: []string{"https://x.example/"}, Checked: at(-2 * day), Next: at(-minute),
			Err: "https://x.example/: " + attack, Since: at(-day), Failures: 5,
		},
	}
	return s
}

// attack is what a client may write to act on a terminal.
const attack = "curl\x1b[2J\u009b31m\u202e\\x41"

func crossingLine() *control.Line {
	return &control.Line{
		Log: "nginx", File: "/var/log/nginx/access.log", Offset: 91_230_113, Time: at(-3 * minute), Client: netip.MustParseAddr("203.0.113.66"),
		Method: "POST", Path: "/sign-in", Status: 401, Agent: attack, Step: "counted", Jails: []string{"sign-in"},
	}
}

func sampleBans() *control.Bans {
	signIn := control.Owner{
		Jail: "sign-in", Client: netip.MustParseAddr("203.0.113.66"), Since: at(-3 * minute), Until: at(57 * minute), Offence: 2,
		Count: 11, Limit: 10, Window: 60, Plane: "direct", Event: at(-3 * minute), File: "/var/log/nginx/access.log", Offset: 91_230_113,
		Line: crossingLine(), Actions: []string{"firewall", "edge"},
	}
	web := control.Owner{
		Jail: "web", Client: netip.MustParseAddr("203.0.113.66"), Since: at(-2 * minute), Until: at(58 * minute), Offence: 1,
		Count: 51, Limit: 50, Window: 60, Plane: "direct", Event: at(-2 * minute), Actions: []string{"firewall"},
	}
	return &control.Bans{Now: at(0), Total: 4, Bans: []control.Ban{
		{
			Target: netip.MustParsePrefix("203.0.113.66/32"), Origin: "web1", Since: at(-3 * minute), Until: at(58 * minute),
			Owners: []control.Owner{signIn, web},
			Actions: []control.AtAction{
				{Action: "firewall", Until: at(58 * minute), Held: ptr(true), Ends: at(58 * minute), Packets: ptr(uint64(1_204))},
				{Action: "edge", Until: at(57 * minute), Held: ptr(false), Err: ""},
			},
			Seen: 5, LastSeen: at(-170),
		},
		{
			Target: netip.MustParsePrefix("2001:db8:42:7::/64"), Origin: "web1", Since: at(-5 * hour), Until: at(19 * hour),
			Owners: []control.Owner{{
				Jail: "scanner", Client: netip.MustParseAddr("2001:db8:42:7::1"), Since: at(-5 * hour), Until: at(19 * hour), Offence: 1,
				Count: 21, Limit: 20, Window: 60, Plane: "direct", Actions: []string{"firewall"},
			}},
			Actions: []control.AtAction{{Action: "firewall", Until: at(19 * hour), Held: ptr(true), Ends: at(19 * hour), Packets: ptr(uint64(88))}},
		},
		{
			Target: netip.MustParsePrefix("198.51.100.0/24"), Origin: "web1", Since: at(-40), Until: at(2*hour - 40),
			Owners: []control.Owner{{
				Jail: control.ByHand, Client: netip.MustParseAddr("198.51.100.0"), Since: at(-40), Until: at(2*hour - 40), Event: at(-40), Offence: 1, Reason: "ticket 4711", By: "uid 0", Actions: []string{"firewall", "edge"},
			}},
			Actions: []control.AtAction{
				{Action: "firewall", Until: at(2*hour - 40), Held: ptr(true), Ends: at(2*hour - 40), Packets: ptr(uint64(0))},
				{Action: "edge", Until: at(2*hour - 40), Err: "it can't list what it holds"},
			},
		},
		{
			Target: netip.MustParsePrefix("192.0.2.9/32"), Origin: "web1", Since: at(-20 * minute), Until: at(40 * minute), Observed: true,
			Owners: []control.Owner{{
				Jail: "hotlinks", Client: netip.MustParseAddr("192.0.2.9"), Since: at(-20 * minute), Until: at(40 * minute), Offence: 1,
				Count: 201, Limit: 200, Window: 600, Plane: "forwarded", Actions: []string{},
			}},
			Actions: []control.AtAction{},
			Seen:    31, LastSeen: at(-5),
		},
	}}
}

// asPart is a ban that is held as part of a network.
func asPart() *control.Bans {
	b := sampleBans()
	b.Bans, b.Total = b.Bans[:1], 1
	b.Bans[0].Actions = b.Bans[0].Actions[:1]
	b.Bans[0].Actions[0].Network = netip.MustParsePrefix("203.0.113.0/24")
	return b
}

func bannedExplanation() *control.Explanation {
	return &control.Explanation{
		Now: at(0), Address: netip.MustParseAddr("203.0.113.66"), Target: netip.MustParsePrefix("203.0.113.66/32"),
		Conclusion: control.Banned, Text: "203.0.113.66 is banned until 2026-11-30 05:30:16 UTC by jail sign-in and jail web",
		Bans: sampleBans().Bans[:1],
		Fill: []control.Fill{
			{Jail: "scanner", Count: 7, Limit: 20, Window: 60, First: at(-50), Last: at(-4)},
		},
		Offences: []control.Offence{
			{History: "sign-in", Count: 2, Last: at(-3 * minute), Until: at(30*day - 3*minute), Next: 6 * hour},
			{History: "web", Count: 1, Last: at(-2 * day), Until: at(28 * day), Observed: true},
		},
		Forgiven: []control.Pardon{
			{Target: netip.MustParsePrefix("203.0.113.0/24"), Jail: "hotlinks", Before: at(-hour), Reason: "a mistake of ours", By: "uid 1000"},
			{Target: netip.MustParsePrefix("203.0.113.66/32"), Before: at(-2 * day)},
		},
		Seen: []control.Seen{
			{
				Log: "nginx", Bytes: 8 << 20, Lines: 1_241, First: at(-8 * minute), Last: at(-4), Partial: true,
				Steps: map[string]int{"counted": 62, "already banned": 1_179},
			},
			{Log: "shop", Err: "open /var/log/apache2/shop.log: permission denied"},
			{Log: "api", Bytes: 4_096},
		},
		Evidence: []control.Line{
			*crossingLine(),
			{
				Log: "nginx", File: "/var/log/nginx/access.log", Offset: 91_234_001, Time: at(-4), Client: netip.MustParseAddr("203.0.113.66"),
				Method: "GET", Path: "/a/very/long/way/down/to/something/that/is/not/there.php", Status: 404, Agent: "python-requests/2.32.3", Step: "already banned",
			},
		},
		Through: "5 requests since the ban, the latest at 2026-11-30 04:30:16 UTC: action edge is failing: no answer from 192.0.2.80:443: i/o timeout",
		Notes:   []string{"/var/log/nginx/access.log.1, where 203.0.113.66 crossed the limit at byte 511, is gone or compressed"},
	}
}

func unseenExplanation() *control.Explanation {
	return &control.Explanation{
		Now: at(0), Address: netip.MustParseAddr("2001:db8::7"), Target: netip.MustParsePrefix("2001:db8::/64"),
		Conclusion: control.Unseen, Text: "2001:db8::7 is not banned, and there is no line of it in the ends of the logs",
	}
}

func sampleLine() *control.LineExplanation {
	return &control.LineExplanation{
		Log: "nginx", Format: "nginx",
		Fields: []control.Field{
			{Name: "peer", Value: "10.0.0.1"}, {Name: "time", Value: "2026-11-30T04:32:12Z"}, {Name: "header", Value: "203.0.113.66"},
			{Name: "method", Value: "POST"}, {Name: "path", Value: "/sign-in"}, {Name: "status", Value: "401"}, {Name: "agent", Value: attack},
		},
		Hops: []control.Hop{
			{From: "peer", Value: "10.0.0.1", Trusted: true, Result: "a trusted proxy: its header is looked at, from the right"},
			{From: "header", Value: "203.0.113.66", Result: "no trusted proxy: it is the client"},
		},
		Plane: "forwarded", Client: netip.MustParseAddr("203.0.113.66"), Target: netip.MustParsePrefix("203.0.113.66/32"),
		Steps: []control.StepTrace{
			{Number: 1, Name: "parse", Result: "parsed, of 2026-11-30T04:32:12Z"},
			{Number: 2, Name: "client", Result: "203.0.113.66 (forwarded), counted as 203.0.113.66/32"},
			{Number: 3, Name: "allowed", Result: "203.0.113.66 is not allowed by any address"},
			{Number: 4, Name: "wanted", Result: "its agent is that of no wanted machine"},
			{Number: 5, Name: "denied", Result: "neither its address nor its agent is denied"},
			{Number: 6, Name: "infrastructure", Result: "the client is no trusted proxy"},
			{Number: 7, Name: "banned", Result: "203.0.113.66/32 is not banned"},
			{Number: 7, Name: "jails", Result: "counted by 1 of the log's 2 jails"},
		},
		Jails: []control.JailTrace{
			{Jail: "sign-in", Matches: true, Count: 7, Limit: 10, Conditions: []control.Condition{
				{Field: "method", Want: "POST", Got: "POST", Holds: true},
				{Field: "path", Want: "/sign-in, /sign-up, /reset/*", Got: "/sign-in", Holds: true},
			}},
			{Jail: "scanner", Count: 0, Limit: 20, Conditions: []control.Condition{
				{Field: "status", Want: "404, 500-599", Got: "401"},
				{Field: "path", Not: true, Want: "~^/assets/", Got: "/sign-in", Holds: true},
			}},
		},
		Step: "counted", Outcome: "203.0.113.66 is counted",
	}
}

func sampleEvents() []control.Event {
	target := netip.MustParsePrefix("203.0.113.66/32")
	return []control.Event{
		{
			Time: at(-3 * minute), Kind: "ban", Target: target, Client: target.Addr(), Jail: "sign-in", Until: at(57 * minute),
			Offence: 2, Count: 11, Limit: 10, Window: 60, Plane: "direct", Line: crossingLine(),
		},
		{Time: at(-60), Kind: "refuse", Target: netip.MustParsePrefix("10.0.0.1/32"), Jail: "web", Count: 51, Limit: 50, Window: 60, Reason: "it is a trusted proxy"},
		{Time: at(-40), Kind: "hold", Jail: "scanner", Until: at(40 * minute), Reason: "release of the shop\x1b[2J", By: "uid 1000"},
		{Time: at(-2), Kind: "end", Target: netip.MustParsePrefix("2001:db8:42:7::/64"), Jail: "web"},
		{Time: at(-1), Kind: "alarm", Reason: "log shop: most lines don't parse"},
	}
}

// fakeDaemon answers with the sample, or with what a test sets, and records
// what it was asked.
type fakeDaemon struct {
	status  *control.Status
	explain *control.Explanation
	unban   *control.UnbanResult
	reload  *control.ReloadResult
	events  []control.Event
	stay    bool  // the stream of events goes on
	err     error // instead of every answer

	asked any // the last request
}

var _ control.Operator = (*fakeDaemon)(nil)

func newFake() *fakeDaemon {
	return &fakeDaemon{
		status: busyStatus(), explain: bannedExplanation(), events: sampleEvents(),
		unban: &control.UnbanResult{
			Lifted: 2, Kept: 1, Cleared: 9, Notes: []string{"192.0.2.9 is in the deny list, and will be banned again"},
			Targets: []netip.Prefix{netip.MustParsePrefix("203.0.113.66/32"), netip.MustParsePrefix("203.0.113.77/32")},
		},
		reload: &control.ReloadResult{
			Changes: []string{"jails.web: limit 50 → 40", "jails.hotlinks: new"}, Warnings: []string{"jails.hotlinks has no action"},
			Restart: []string{"state_dir"},
		},
	}
}

func (d *fakeDaemon) Status(context.Context) (*control.Status, error) { return d.status, d.err }

func (d *fakeDaemon) Bans(_ context.Context, q control.BansQuery) (*control.Bans, error) {
	d.asked = q
	b := sampleBans()
	if q.Jail == "quiet" {
		b.Bans, b.Total = []control.Ban{}, 0
	}
	if q.Jail == "merged" {
		b = asPart()
	}
	if q.Limit > 0 {
		b.Bans = b.Bans[:min(q.Limit, len(b.Bans))]
	}
	return b, d.err
}

func (d *fakeDaemon) Explain(_ context.Context, a netip.Addr) (*control.Explanation, error) {
	d.asked = a
	if a.Is6() {
		return unseenExplanation(), d.err
	}
	return d.explain, d.err
}

func (d *fakeDaemon) ExplainLine(_ context.Context, q control.LineQuery) (*control.LineExplanation, error) {
	d.asked = q
	return sampleLine(), d.err
}

// Follow sends the sample's events, and then ends as a daemon does, or stays.
func (d *fakeDaemon) Follow(ctx context.Context) (<-chan control.Event, error) {
	if d.err != nil {
		return nil, d.err
	}
	c := make(chan control.Event)
	go func() {
		defer close(c)
		for _, e := range d.events {
			select {
			case c <- e:
			case <-ctx.Done():
				return
			}
		}
		if d.stay {
			<-ctx.Done()
		}
	}()
	return c, nil
}

func (d *fakeDaemon) Ban(_ context.Context, _ control.Caller, q control.BanRequest) (*control.BanResult, error) {
	d.asked = q
	r := &control.BanResult{Target: q.Target, Until: at(hour), Actions: []string{"firewall", "edge"}}
	if inside := netip.MustParsePrefix("203.0.113.66/32"); q.Target.Contains(inside.Addr()) && q.Target != inside {
		r.Absorbed, r.Notes = []netip.Prefix{inside}, []string{"edge fails now, and gets it later"}
	}
	return r, d.err
}

func (d *fakeDaemon) Unban(_ context.Context, _ control.Caller, q control.UnbanRequest) (*control.UnbanResult, error) {
	d.asked = q
	return d.unban, d.err
}

func (d *fakeDaemon) Allow(_ context.Context, _ control.Caller, q control.AllowRequest) (*control.AllowResult, error) {
	d.asked = q
	r := &control.AllowResult{Target: q.Target, Lifted: 1}
	if !q.End {
		r.Until = at(2 * hour)
	}
	return r, d.err
}

func (d *fakeDaemon) Hold(_ context.Context, _ control.Caller, q control.HoldRequest) (*control.HoldResult, error) {
	d.asked = q
	if q.Resume {
		return &control.HoldResult{Jail: q.Jail, Mode: control.ModeEnforce, Was: control.ModeHeld}, d.err
	}
	return &control.HoldResult{Jail: q.Jail, Mode: control.ModeHeld, Was: control.ModeEnforce}, d.err
}

func (d *fakeDaemon) Confirm(context.Context, control.Caller) (*control.ConfirmResult, error) {
	return &control.ConfirmResult{Deadline: at(2 * hour)}, d.err
}

func (d *fakeDaemon) AcceptList(_ context.Context, _ control.Caller, q control.AcceptListRequest) (*control.AcceptListResult, error) {
	d.asked = q
	return &control.AcceptListResult{Name: q.Name, Added: 3, Removed: 1}, d.err
}

func (d *fakeDaemon) Reload(context.Context, control.Caller) (*control.ReloadResult, error) {
	return d.reload, d.err
}
