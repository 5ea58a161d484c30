package metrics

import "github.com/tailban/tailban/internal/control"

// actions makes what reads the values of each action.
func actions(read func(*control.ActionStatus, put)) func(*Snapshot, put) {
	return each(func(s *control.Status) []control.ActionStatus { return s.Actions }, read)
}

func actionFamilies() []Family {
	value := func(v func(*control.ActionStatus) float64) func(*Snapshot, put) {
		return actions(func(a *control.ActionStatus, put put) { put(v(a), a.Name) })
	}
	label := []string{"action"}
	return append([]Family{
		{"tailban_action_info", Gauge, []string{"action", "type"}, "Always 1; of which type the action is.",
			actions(func(a *control.ActionStatus, put put) { put(1, a.Name, a.Type) })},
		{"tailban_action_failing", Gauge, label, "1 if bans are not enforced there.", value(func(a *control.ActionStatus) float64 { return truth(a.Failing) })},
		{"tailban_action_failing_since_timestamp_seconds", Gauge, label, "Since when the action fails; missing if it doesn't.",
			actions(func(a *control.ActionStatus, put put) {
				if a.Failing {
					unless0(put, a.Since, a.Name)
				}
			})},
		{"tailban_action_desired_bans", Gauge, label, "Bans that should be in force there.", value(func(a *control.ActionStatus) float64 { return float64(a.Desired) })},
		{"tailban_action_pending_changes", Gauge, label, "Changes that are not applied yet.", value(func(a *control.ActionStatus) float64 { return float64(a.Pending) })},
		{"tailban_action_last_pass_timestamp_seconds", Gauge, label, "When what it holds was last compared; missing if it never was.",
			actions(func(a *control.ActionStatus, put put) { unless0(put, a.LastPass, a.Name) })},
		{"tailban_action_drift_repairs_total", Counter, []string{"action", "repair"}, "Bans that others had removed, added or changed, and that were put right: added, removed or corrected.",
			actions(func(a *control.ActionStatus, put put) {
				put(float64(a.DriftAdded), a.Name, "added")
				put(float64(a.DriftRemoved), a.Name, "removed")
				put(float64(a.DriftCorrected), a.Name, "corrected")
			})},
		{"tailban_action_rule_repairs_total", Counter, label, "Repairs of its rules, changed by others.", value(func(a *control.ActionStatus) float64 { return float64(a.Repairs) })},
		{"tailban_action_watched", Gauge, label, "1 if changes by others are heard of at once.", value(func(a *control.ActionStatus) float64 { return truth(a.Watched) })},
		{"tailban_action_contested", Gauge, label, "1 if others change it again and again, so that repairs wait.", value(func(a *control.ActionStatus) float64 { return truth(a.Contested) })},
		{"tailban_action_rejected_bans_total", Counter, label, "Bans that it would not take.", value(func(a *control.ActionStatus) float64 { return float64(a.Rejected) })},
		{"tailban_action_misheld_bans_total", Counter, label, "Bans that it said to have taken, and that were not there.", value(func(a *control.ActionStatus) float64 { return float64(a.Misheld) })},
		{"tailban_action_left_out_bans", Gauge, label, "Bans that it has no room for now.", value(func(a *control.ActionStatus) float64 { return float64(a.LeftOut) })},
		{"tailban_action_evicted_bans_total", Counter, label, "Times that a ban was left out.", value(func(a *control.ActionStatus) float64 { return float64(a.Evicted) })},
		{"tailban_action_overdue_bans", Gauge, label, "Bans that are over, and that it could not take out.", value(func(a *control.ActionStatus) float64 { return float64(a.Overdue) })},
		{"tailban_action_overdue_since_timestamp_seconds", Gauge, label, "Since when there are some; missing if there are none.",
			actions(func(a *control.ActionStatus, put put) { unless0(put, a.OverdueSince, a.Name) })},
		{"tailban_action_seen_requests_total", Counter, label, "Requests of clients that it should keep away, and that reached the server.", value(func(a *control.ActionStatus) float64 { return float64(a.Seen) })},
		{"tailban_action_seen_forwarded_requests_total", Counter, label, "Of these, those that came through a proxy.", value(func(a *control.ActionStatus) float64 { return float64(a.SeenForwarded) })},
	}, partFamilies()...)
}

// partFamilies are about what not every action has.
func partFamilies() []Family {
	label := []string{"action"}
	return []Family{
		{"tailban_action_program_runs_total", Counter, label, "Programs that the action ran.", partOf(program, func(p *control.ProgramStatus) uint64 { return p.Runs })},
		{"tailban_action_program_failures_total", Counter, label, "Of these, those that did not do what they should.", partOf(program, func(p *control.ProgramStatus) uint64 { return p.Failures })},
		{"tailban_action_program_timeouts_total", Counter, label, "Of these, those that took too long and were ended.", partOf(program, func(p *control.ProgramStatus) uint64 { return p.Timeouts })},
		{"tailban_action_cut_connections_total", Counter, label, "Open connections of banned clients that were cut.", partOf(cut, func(c *control.CutStatus) uint64 { return c.Connections })},
		{"tailban_action_cut_failures_total", Counter, label, "Connections that could not be cut.", partOf(cut, func(c *control.CutStatus) uint64 { return c.Failed })},
		{"tailban_action_cut_dropped_targets_total", Counter, label, "Bans whose connections were not looked for.", partOf(cut, func(c *control.CutStatus) uint64 { return c.Dropped })},
		{"tailban_action_merged_networks", Gauge, label, "Networks that are banned as one.", partOf(merged, func(m *control.MergeStatus) int { return m.Networks })},
		{"tailban_action_merged_members", Gauge, label, "Members of these that are banned.", partOf(merged, func(m *control.MergeStatus) int { return m.Members })},
		{"tailban_action_merges_total", Counter, label, "Networks that came to be banned as one.", partOf(merged, func(m *control.MergeStatus) uint64 { return m.Merges })},
		{"tailban_action_splits_total", Counter, label, "Of these, those that ceased to be before their end.", partOf(merged, func(m *control.MergeStatus) uint64 { return m.Splits })},
	}
}

func program(a *control.ActionStatus) *control.ProgramStatus { return a.Programs }
func cut(a *control.ActionStatus) *control.CutStatus         { return a.Cut }
func merged(a *control.ActionStatus) *control.MergeStatus    { return a.Merged }
func edge(a *control.ActionStatus) *control.EdgeStatus       { return a.Edge }

// partOf makes what reads a value of a part of each action that has it.
func partOf[T any, N int | uint64](part func(*control.ActionStatus) *T, value func(*T) N) func(*Snapshot, put) {
	return actions(func(a *control.ActionStatus, put put) {
		if p := part(a); p != nil {
			put(float64(value(p)), a.Name)
		}
	})
}

// edgeFamilies are about actions at Cloudflare's edge.
func edgeFamilies() []Family {
	label, zone := []string{"action"}, []string{"action", "zone"}
	leases := func(read func(*control.Lease, string, put)) func(*Snapshot, put) {
		return actions(func(a *control.ActionStatus, put put) {
			if a.Edge == nil {
				return
			}
			for i := range a.Edge.Leases {
				read(&a.Edge.Leases[i], a.Name, put)
			}
		})
	}
	return []Family{
		{"tailban_edge_items", Gauge, []string{"action", "owner"}, "Items in the list: of this host (own), and all others.",
			actions(func(a *control.ActionStatus, put put) {
				if a.Edge != nil {
					put(float64(a.Edge.Items), a.Name, "own")
					put(float64(a.Edge.Others), a.Name, "others")
				}
			})},
		{"tailban_edge_covered_bans", Gauge, label, "Bans that items of others enforce.", partOf(edge, func(e *control.EdgeStatus) int { return e.Covered })},
		{"tailban_edge_waiting_changes", Gauge, label, "Changes that had to wait for the budget at the last write.", partOf(edge, func(e *control.EdgeStatus) int { return e.Waiting })},
		{"tailban_edge_overdue_items", Gauge, label, "Items that are long over and can't be removed.", partOf(edge, func(e *control.EdgeStatus) int { return e.Overdue })},
		{"tailban_edge_unused", Gauge, label, "1 if no rule uses the list, so that it keeps nobody away.",
			actions(func(a *control.ActionStatus, put put) {
				if a.Edge != nil {
					put(truth(a.Edge.Unused), a.Name)
				}
			})},
		{"tailban_edge_requests_total", Counter, label, "Requests to the API.", partOf(edge, func(e *control.EdgeStatus) uint64 { return e.Requests })},
		{"tailban_edge_writes_total", Counter, label, "Changes in bulk.", partOf(edge, func(e *control.EdgeStatus) uint64 { return e.Writes })},
		{"tailban_edge_changed_items_total", Counter, label, "Changes of items in these.", partOf(edge, func(e *control.EdgeStatus) uint64 { return e.Changes })},
		{"tailban_edge_ended_items_total", Counter, label, "Items that were removed as their time was over.", partOf(edge, func(e *control.EdgeStatus) uint64 { return e.Removed })},
		{"tailban_edge_lease_deadline_timestamp_seconds", Gauge, zone, "When the rule of a zone lapses unless it is renewed; missing if that is not known.",
			leases(func(l *control.Lease, action string, put put) { unless0(put, l.Deadline, action, l.Zone) })},
		{"tailban_edge_lease_failing", Gauge, zone, "1 if the rule can't be renewed, or the zone refuses access rules.",
			leases(func(l *control.Lease, action string, put put) { put(truth(l.Err != ""), action, l.Zone) })},
		{"tailban_edge_lease_off", Gauge, zone, "1 if somebody has turned the rule off.",
			leases(func(l *control.Lease, action string, put put) { put(truth(l.Off), action, l.Zone) })},
	}
}
