package metrics

import (
	"runtime"

	"github.com/tailban/tailban/internal/control"
)

// daemonFamilies are about the daemon itself.
func daemonFamilies() []Family {
	return []Family{
		{"tailban_build_info", Gauge, []string{"version", "go_version"}, "Always 1; which build runs.",
			func(s *Snapshot, put put) { put(1, s.Version, runtime.Version()) }},
		{"tailban_start_time_seconds", Gauge, nil, "When the daemon started, in Unix time.",
			func(s *Snapshot, put put) { put(seconds(s.Started)) }},
		{"tailban_engine_answered", Gauge, nil, "1, or 0 if the daemon didn't answer in time: it hangs, or reads again what it had counted before its start; all that it would tell is missing then.",
			func(s *Snapshot, put put) { put(truth(s.Status != nil)) }},
		{"tailban_engine_wait_seconds", Gauge, nil, "How long the engine took to get to the question that these figures answer: its lag. If it didn't get there, for how long it was waited for.",
			func(s *Snapshot, put put) {
				if s.Status == nil {
					put(s.Waited.Seconds())
					return
				}
				put(s.Status.Wait)
			}},
		{"tailban_healthy", Gauge, nil, "1 if there is no problem.",
			of(func(s *control.Status) float64 { return truth(s.Healthy) })},
		{"tailban_problems", Gauge, []string{"kind"}, "Problems, as tailban status lists them.", readProblems},
		{"tailban_config_loaded_timestamp_seconds", Gauge, nil, "When the configuration that runs was read.",
			func(s *Snapshot, put put) {
				if s.Status != nil {
					unless0(put, s.Status.Config.Loaded)
				}
			}},
		{"tailban_config_last_good", Gauge, nil, "1 if the configuration had problems at the start, so that the one before runs.",
			of(func(s *control.Status) float64 { return truth(s.Config.LastGood) })},
		{"tailban_config_refused_timestamp_seconds", Gauge, nil, "When the latest reload was refused; missing if it was not.",
			func(s *Snapshot, put put) {
				if s.Status != nil {
					unless0(put, s.Status.Config.Refused)
				}
			}},
		{"tailban_state_failing", Gauge, nil, "1 if changes can't be stored: a restart would forget them.",
			of(func(s *control.Status) float64 { return truth(s.State.Failing) })},
		{"tailban_state_pending_records", Gauge, nil, "Changes that are not stored yet.",
			of(func(s *control.Status) float64 { return float64(s.State.Pending) })},
		{"tailban_state_pending_since_timestamp_seconds", Gauge, nil, "Since when the oldest of them waits; missing if none does.",
			func(s *Snapshot, put put) {
				if s.Status != nil {
					unless0(put, s.Status.State.Since)
				}
			}},
		{"tailban_state_commits_total", Counter, nil, "Times that changes were stored.",
			of(func(s *control.Status) float64 { return float64(s.State.Commits) })},
		{"tailban_state_commit_failures_total", Counter, nil, "Times that this failed.",
			of(func(s *control.Status) float64 { return float64(s.State.Failures) })},
		{"tailban_state_refused_records_total", Counter, nil, "Changes that could never be stored, and were left out.",
			of(func(s *control.Status) float64 { return float64(s.State.Refused) })},
	}
}

// readProblems has a value for each kind, so that it is there before the first
// problem.
func readProblems(s *Snapshot, put put) {
	if s.Status == nil {
		return
	}
	n := map[string]int{}
	for i := range s.Status.Problems {
		n[s.Status.Problems[i].Kind]++
	}
	for _, kind := range control.ProblemKinds() {
		put(float64(n[kind]), kind)
	}
}

// banFamilies are about bans as a whole.
func banFamilies() []Family {
	budgets := func(read func(*control.Budget) float64) func(*Snapshot, put) {
		return each(func(s *control.Status) []control.Budget { return s.Budgets }, func(b *control.Budget, put put) { put(read(b), b.Name, b.Unit) })
	}
	labels := []string{"budget", "unit"}
	return []Family{
		{"tailban_bans", Gauge, nil, "Targets that are banned, or would be by jails that observe.",
			of(func(s *control.Status) float64 { return float64(s.Bans) })},
		{"tailban_bans_waiting", Gauge, nil, "Of these, those that wait for their turn to be enforced (max_bans_per_minute).",
			of(func(s *control.Status) float64 { return float64(s.Waiting) })},
		{"tailban_bans_unconfirmed_deadline_timestamp_seconds", Gauge, nil, "When all bans end, unless somebody confirms this start; missing if they don't.",
			func(s *Snapshot, put put) {
				if s.Status != nil {
					unless0(put, s.Status.ConfirmBy)
				}
			}},
		{"tailban_budget_used", Gauge, labels, "How much is used of what is bounded.", budgets(func(b *control.Budget) float64 { return float64(b.Used) })},
		{"tailban_budget_limit", Gauge, labels, "How much there may be of it.", budgets(func(b *control.Budget) float64 { return float64(b.Limit) })},
		{"tailban_budget_dropped_total", Counter, labels, "What did not fit.", budgets(func(b *control.Budget) float64 { return float64(b.Dropped) })},
	}
}

// Whose word a jail is held by.
const (
	byBreaker = "breaker"
	byHand    = "hand"
)

func modes() []string {
	return []string{control.ModeEnforce, control.ModeObserve, control.ModeHeld, control.ModeSparing}
}

func jailFamilies() []Family {
	jails := func(read func(*control.JailStatus, put)) func(*Snapshot, put) {
		return each(func(s *control.Status) []control.JailStatus { return s.Jails }, read)
	}
	value := func(v func(*control.JailStatus) float64) func(*Snapshot, put) {
		return jails(func(j *control.JailStatus, put put) { put(v(j), j.Name) })
	}
	label := []string{"jail"}
	return []Family{
		{"tailban_jail_mode", Gauge, []string{"jail", "mode"}, "1 for the mode that the jail is in, 0 for the others.",
			jails(func(j *control.JailStatus, put put) { oneOf(put, modes(), j.Mode, j.Name) })},
		{"tailban_jail_held", Gauge, []string{"jail", "by"}, "1 if the jail bans nobody, or spares regular clients, for a while: by the breaker, or by hand.",
			jails(func(j *control.JailStatus, put put) {
				by := ""
				if j.Held != nil {
					by = byHand
					if j.Held.By == control.ByBreaker {
						by = byBreaker
					}
				}
				oneOf(put, []string{byBreaker, byHand}, by, j.Name)
			})},
		{"tailban_jail_bans", Gauge, label, "Bans that the jail owns now.", value(func(j *control.JailStatus) float64 { return float64(j.Bans) })},
		{"tailban_jail_matched_events_total", Counter, label, "Events that met the jail's conditions.", value(func(j *control.JailStatus) float64 { return float64(j.Matched) })},
		{"tailban_jail_decisions_total", Counter, label, "Bans that the jail asked for.", value(func(j *control.JailStatus) float64 { return float64(j.Decisions) })},
		{"tailban_jail_refused_decisions_total", Counter, label, "Of these, those of targets that are never banned.", value(func(j *control.JailStatus) float64 { return float64(j.Refused) })},
		{"tailban_jail_last_ban_timestamp_seconds", Gauge, label, "When the jail last banned; missing if it hasn't yet.",
			jails(func(j *control.JailStatus, put put) { unless0(put, j.LastBan, j.Name) })},
	}
}
