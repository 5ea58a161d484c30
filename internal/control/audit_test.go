package control

import (
	"context"
	"os"
	"strings"
	"testing"
)

// Who changed what, why, and what came of it, is a line of the log.
func TestAudit(t *testing.T) {
	t.Parallel()
	refuse := &Error{Code: CodeRefused, Message: "protected\n"}
	r := serve(t, &fake{
		ban:    func(context.Context, Caller, BanRequest) (*BanResult, error) { return nil, refuse },
		unban:  func(context.Context, Caller, UnbanRequest) (*UnbanResult, error) { return &UnbanResult{}, nil },
		allow:  func(context.Context, Caller, AllowRequest) (*AllowResult, error) { return &AllowResult{}, nil },
		hold:   func(context.Context, Caller, HoldRequest) (*HoldResult, error) { return &HoldResult{}, nil },
		reload: func(context.Context, Caller) (*ReloadResult, error) { return &ReloadResult{}, nil },
	})
	ctx := t.Context()
	r.client.Status(ctx) // changes nothing, and is not audited
	r.client.Ban(ctx, BanRequest{Target: oneNet, Jail: "web", For: 90, Force: true, Reason: "a\n\u202eb"})
	r.client.Unban(ctx, UnbanRequest{All: true, Forgive: 60})
	r.client.Allow(ctx, AllowRequest{Target: oneNet, End: true})
	r.client.Hold(ctx, HoldRequest{Jail: strings.Repeat("j", 1000), Resume: true})
	r.client.Reload(ctx)
	r.client.Hold(ctx, HoldRequest{})

	want := []map[string]any{
		{"verb": "ban", "target": oneNet.String(), "jail": "web", "for": "1m30s", "force": true, "reason": `a\n\u{202e}b`, "outcome": "refused", "err": `protected\n`, "level": "WARN"},
		{"verb": "unban", "all": true, "for": "1m0s", "outcome": "done", "level": "INFO"},
		{"verb": "allow", "target": oneNet.String(), "end": true, "outcome": "done", "level": "INFO"},
		{"verb": "hold", "jail": strings.Repeat("j", 200) + "…", "resume": true, "outcome": "done", "level": "INFO"},
		{"verb": "reload", "outcome": "done", "level": "INFO"},
		{"verb": "hold", "outcome": "bad_request", "err": "the key jail is missing", "level": "WARN"},
	}
	said := r.log.said("control")
	if len(said) != len(want) {
		t.Fatalf("the log has %d lines, want %d: %s", len(said), len(want), r.log)
	}
	for i, w := range want {
		w["uid"], w["gid"], w["pid"] = float64(os.Geteuid()), float64(os.Getegid()), float64(os.Getpid())
		w["msg"], w["time"] = "control", said[i]["time"]
		for key := range said[i] {
			if said[i][key] != w[key] {
				t.Errorf("line %d has %s %v, want %v", i, key, said[i][key], w[key])
			}
		}
		if len(said[i]) != len(w) {
			t.Errorf("line %d is %v, want %v", i, said[i], w)
		}
	}
}
