package metrics

import "github.com/tailban/tailban/internal/control"

// otherFamilies are about who is told, published ranges, proofs by name and the
// control sockets.
func otherFamilies() []Family {
	told := func(read func(*control.NotifyStatus, put)) func(*Snapshot, put) {
		return each(func(s *control.Status) []control.NotifyStatus { return s.Notify }, read)
	}
	lists := func(read func(*control.ListStatus, put)) func(*Snapshot, put) {
		return each(func(s *control.Status) []control.ListStatus { return s.Lists }, read)
	}
	proofs := func(read func(*control.ProofStatus, put)) func(*Snapshot, put) {
		return func(s *Snapshot, put put) {
			if s.Status != nil && s.Status.Proofs != nil {
				read(s.Status.Proofs, put)
			}
		}
	}
	target, list := []string{"target"}, []string{"list"}
	return []Family{
		{"tailban_notify_failing", Gauge, target, "1 if messages fail to arrive.",
			told(func(n *control.NotifyStatus, put put) { put(truth(n.Failing), n.Name) })},
		{"tailban_notify_sent_messages_total", Counter, target, "Messages that were taken.",
			told(func(n *control.NotifyStatus, put put) { put(float64(n.Sent), n.Name) })},
		{"tailban_notify_last_sent_timestamp_seconds", Gauge, target, "When the latest was; missing if none was.",
			told(func(n *control.NotifyStatus, put put) { unless0(put, n.LastSent, n.Name) })},
		{"tailban_notify_waiting_events", Gauge, target, "Events that are not told yet.",
			told(func(n *control.NotifyStatus, put put) { put(float64(n.Waiting), n.Name) })},
		{"tailban_notify_lost_events_total", Counter, target, "Events in messages that were refused for good.",
			told(func(n *control.NotifyStatus, put put) { put(float64(n.Lost), n.Name) })},

		{"tailban_list_ranges", Gauge, list, "Published ranges that are in use.",
			lists(func(l *control.ListStatus, put put) { put(float64(l.Ranges), l.Name) })},
		{"tailban_list_fetched", Gauge, list, "1 if they were fetched, 0 if they are those built in.",
			lists(func(l *control.ListStatus, put put) { put(truth(l.Fetched), l.Name) })},
		{"tailban_list_checked_timestamp_seconds", Gauge, list, "When all sources last answered; missing if they never did.",
			lists(func(l *control.ListStatus, put put) { unless0(put, l.Checked, l.Name) })},
		{"tailban_list_next_timestamp_seconds", Gauge, list, "When they are asked again.",
			lists(func(l *control.ListStatus, put put) { unless0(put, l.Next, l.Name) })},
		{"tailban_list_failures", Gauge, list, "Attempts that failed since the last good one.",
			lists(func(l *control.ListStatus, put put) { put(float64(l.Failures), l.Name) })},
		{"tailban_list_waiting", Gauge, list, "1 if ranges wait for somebody to accept them.",
			lists(func(l *control.ListStatus, put put) { put(truth(l.Waiting != nil), l.Name) })},

		{"tailban_proof_look_ups_total", Counter, nil, "Names of clients that were looked up.",
			proofs(func(p *control.ProofStatus, put put) { put(float64(p.LookUps)) })},
		{"tailban_proof_clients_total", Counter, []string{"result"}, "Clients that claimed to be wanted machines, by what their names say.",
			proofs(func(p *control.ProofStatus, put put) {
				put(float64(p.Proved), "proved")
				put(float64(p.Disproved), "disproved")
				put(float64(p.Failed), "failed")
			})},
		{"tailban_proof_spared_bans_total", Counter, nil, "Bans that were dropped, as their client has proved who it is.",
			proofs(func(p *control.ProofStatus, put put) { put(float64(p.Spared)) })},
		{"tailban_proof_waiting_clients", Gauge, nil, "Clients of which it is being found out.",
			proofs(func(p *control.ProofStatus, put put) { put(float64(p.Waiting)) })},
		{"tailban_proof_postponed_bans", Gauge, nil, "Bans that wait for that.",
			proofs(func(p *control.ProofStatus, put put) { put(float64(p.Postponed)) })},

		{"tailban_socket_connections", Gauge, nil, "Connections to the control sockets.",
			func(s *Snapshot, put put) { put(float64(s.Sockets.Connections)) }},
		{"tailban_socket_refused_connections_total", Counter, nil, "Connections to them that were too many.",
			func(s *Snapshot, put put) { put(float64(s.Sockets.Refused)) }},
		{"tailban_socket_followers", Gauge, nil, "Who follows events there.",
			func(s *Snapshot, put put) { put(float64(s.Sockets.Followers)) }},
		{"tailban_socket_lost_followers_total", Counter, nil, "Followers of events that were too slow.",
			func(s *Snapshot, put put) { put(float64(s.Sockets.Lost)) }},
	}
}
