package metrics

import "github.com/tailban/tailban/internal/control"

// sample is what a daemon with troubles of all kinds tells.
func sample() *Snapshot {
	return &Snapshot{
		Version: "1.4.0", Started: at(-86400),
		Sockets: control.Counters{Connections: 3, Refused: 12, Followers: 1, Lost: 2},
		Process: Process{CPU: 4711.25, Resident: 73_400_320, OpenFDs: 31, MaxFDs: 524_288, Goroutines: 64},
		Status: &control.Status{
			Version: "1.4.0", Now: at(0), Started: at(-86400), Wait: 0.0125,
			Config: control.ConfigStatus{Path: "/etc/tailban/jails.toml", Loaded: at(-7200), Refused: at(-60)},
			State:  control.StateStatus{Failing: true, Pending: 41, Since: at(-90), Commits: 120_411, Failures: 3, Refused: 1},
			Problems: []control.Problem{
				{Kind: "failing", Where: "action edge"}, {Kind: "failing", Where: "log shop"}, {Kind: "blind", Where: "log shop"}, {Kind: "held", Where: "jail scanner"},
			},
			Bans: 499, Waiting: 7, ConfirmBy: at(600),
			Jails: []control.JailStatus{
				{Name: "web", Mode: control.ModeEnforce, Matched: 18_204_331, Decisions: 3_482, Refused: 3, Bans: 412, LastBan: at(-41)},
				{Name: "scanner", Mode: control.ModeSparing, Held: &control.Held{Since: at(-1200), By: control.ByBreaker}},
				{Name: "sign-in", Mode: control.ModeHeld, Held: &control.Held{Since: at(-1200), By: "uid 1000"}},
			},
			Logs: []control.LogStatus{
				{
					Name: "nginx", Lines: 24_118_870, Bytes: 5_120_000_000, Steps: map[string]uint64{"unparsed": 12, "counted": 17_000_000, "allowed": 7_118_858},
					Unparsed: 12, LastLine: at(0), LastEvent: at(-1),
					Files: []control.FileStatus{{Path: "/var/log/nginx/access.log", State: "following"}, {Path: "/var/log/nginx/api.log", State: "waiting"}},
				},
				{
					Name: "shop", Lines: 5_012, Steps: map[string]uint64{"not a record": 12, "unparsed": 4_750}, Cut: 2, Late: 3, Gaps: 1, GapBytes: 3_400_000, Zeros: 4096,
					Errors: 7, Refused: 5, Dropped: 4_811, Malformed: 6, Misread: "198.51.100.9", Blind: true, Silent: true, Skew: 3600, Behind: 3_407_872, BehindFor: 61.5, Polling: true,
					Files: []control.FileStatus{{Path: "/var/log/shop.log", State: "failing", Err: "permission denied"}},
				},
			},
			Actions: []control.ActionStatus{
				{
					Name: "firewall", Type: "nftables", Since: at(-3600), Desired: 499, Pending: 2, LastPass: at(-22), DriftAdded: 12, DriftRemoved: 3, DriftCorrected: 1,
					Rejected: 4, Repairs: 2, Watched: true, Contested: true, Misheld: 5, LeftOut: 6, Evicted: 8, Seen: 1_318, SeenForwarded: 1_204,
					Cut: &control.CutStatus{Connections: 1_312, Failed: 1, Dropped: 2}, Merged: &control.MergeStatus{Networks: 3, Members: 1_204, Merges: 5, Splits: 2},
				},
				{
					Name: "edge", Type: "cloudflare", Failing: true, Since: at(-840), Err: "no answer", Desired: 87,
					Edge: &control.EdgeStatus{
						List: "tailban", Items: 1_204, Others: 31, Covered: 2, Waiting: 17, Unused: true, Requests: 9_114, Writes: 1_313, Changes: 40_208, Removed: 12_003,
						Leases: []control.Lease{
							{Zone: "f0e0d0c0b0a000998877665544332211", Deadline: at(2400)},
							{Zone: "f1e0d0c0b0a000998877665544332211", Deadline: at(1200), Err: "no answer", Off: true},
						},
					},
				},
				{
					Name: "router", Type: "command", Overdue: 7, OverdueSince: at(-180), OverdueErr: "exit status 4",
					Programs: &control.ProgramStatus{Runs: 12_400, Failures: 31, Timeouts: 2},
				},
			},
			Notify: []control.NotifyStatus{{Name: "chat", Failing: true, Sent: 1_205, LastSent: at(-300), Waiting: 32, Lost: 2}},
			Lists: []control.ListStatus{
				{Name: "cloudflare", Ranges: 22, Fetched: true, Checked: at(-9000), Next: at(9000), Failures: 5, Waiting: &control.WaitingList{ID: "1f3870be"}},
			},
			Budgets: []control.Budget{
				{Name: "bans", Unit: "targets", Used: 499, Limit: 100_000, Dropped: 9},
				{Name: "edge: requests", Unit: "requests in 5 minutes", Used: 38, Limit: 400},
			},
			Proofs: &control.ProofStatus{LookUps: 12_004, Proved: 311, Disproved: 1_206, Failed: 8, Spared: 1, Waiting: 3, Postponed: 2},
		},
	}
}
