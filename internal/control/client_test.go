package control

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var (
	noon    = time.Date(2026, 3, 12, 12, 0, 0, 5000, time.UTC)
	oneAddr = netip.MustParseAddr("192.0.2.7")
	oneNet  = netip.MustParsePrefix("2001:db8:1::/64")

	sameValues = cmp.Options{cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })}
)

func ptr[T any](v T) *T { return &v }

// Each question arrives as it was asked, with the caller, and each answer as
// it was given.
func TestEveryVerb(t *testing.T) {
	t.Parallel()
	me := Caller{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), PID: int32(os.Getpid())}
	ban := Ban{
		Target: oneNet, Origin: "web", Since: noon, Until: noon.Add(time.Hour), Seen: 3,
		Owners: []Owner{{
			Jail: "login", Client: oneAddr, Since: noon, Until: noon, Offence: 2, Window: 60, Actions: []string{"firewall"},
			Line: &Line{File: "/var/log/x", Time: noon, Agent: "a<b>&\x1b[31m\u202e"},
		}},
		Actions: []AtAction{{Action: "firewall", Until: noon, Held: ptr(false), Packets: ptr(uint64(0))}},
	}
	wantStatus := Status{Version: "1", Now: noon, Started: noon, Problems: []Problem{{Kind: "blind", Where: "log"}}, Bans: 4,
		Logs: []LogStatus{{Name: "l", Steps: map[string]uint64{"unparsed": 1}, Files: []FileStatus{{Path: "/x", Offset: 1 << 60}}}}}
	wantBans := Bans{Now: noon, Total: 2, Bans: []Ban{ban, ban}}
	wantExplanation := Explanation{Now: noon, Address: oneAddr, Bans: []Ban{ban}, Conclusion: Banned}
	wantLine := LineExplanation{Log: "l", Steps: []StepTrace{{Number: 1, Name: "parse"}}}
	wantEvents := []Event{{Time: noon, Kind: "ban", Target: oneNet}, {Time: noon, Kind: "end", Target: oneNet}}

	bansQuery := BansQuery{Overlap: oneNet, Jail: "a&b=c", Action: "f", Sort: "since", Limit: 7}
	lineQuery := LineQuery{Log: "l", Line: "a \"line\" \x01 \\x22 ü"}
	banRequest := BanRequest{Target: oneNet, For: 1.5, Jail: "j", Reason: "r\n", Force: true}
	unbanRequest := UnbanRequest{Target: oneNet, Jail: "j", Forgive: 60, Reason: "r"}
	allowRequest := AllowRequest{Target: oneNet, For: 60, Reason: "r"}
	holdRequest := HoldRequest{Jail: "j", For: 60, Reason: "r"}

	asked := func(what string, got, want any) {
		if d := cmp.Diff(want, got, sameValues); d != "" {
			t.Errorf("%s was asked (-want +got):\n%s", what, d)
		}
	}
	r := serve(t, &fake{
		status: func(context.Context) (*Status, error) { return &wantStatus, nil },
		bans: func(_ context.Context, q BansQuery) (*Bans, error) {
			asked("bans", q, bansQuery)
			return &wantBans, nil
		},
		explain: func(_ context.Context, a netip.Addr) (*Explanation, error) {
			asked("explain", a, oneAddr)
			return &wantExplanation, nil
		},
		explainLine: func(_ context.Context, q LineQuery) (*LineExplanation, error) {
			asked("explain-line", q, lineQuery)
			return &wantLine, nil
		},
		follow: func(context.Context) (<-chan Event, error) {
			c := make(chan Event, len(wantEvents))
			for _, e := range wantEvents {
				c <- e
			}
			return c, nil
		},
		ban: func(_ context.Context, c Caller, q BanRequest) (*BanResult, error) {
			asked("ban", q, banRequest)
			asked("ban by", c, me)
			return &BanResult{Target: oneNet, Until: noon, Absorbed: []netip.Prefix{oneNet}}, nil
		},
		unban: func(_ context.Context, c Caller, q UnbanRequest) (*UnbanResult, error) {
			asked("unban", q, unbanRequest)
			asked("unban by", c, me)
			return &UnbanResult{Lifted: 1}, nil
		},
		allow: func(_ context.Context, c Caller, q AllowRequest) (*AllowResult, error) {
			asked("allow", q, allowRequest)
			asked("allow by", c, me)
			return &AllowResult{Target: oneNet, Until: noon}, nil
		},
		hold: func(_ context.Context, c Caller, q HoldRequest) (*HoldResult, error) {
			asked("hold", q, holdRequest)
			asked("hold by", c, me)
			return &HoldResult{Jail: "j", Mode: ModeHeld, Was: ModeEnforce}, nil
		},
		confirm: func(_ context.Context, c Caller) (*ConfirmResult, error) {
			asked("confirm by", c, me)
			return &ConfirmResult{Deadline: noon}, nil
		},
		reload: func(_ context.Context, c Caller) (*ReloadResult, error) {
			asked("reload by", c, me)
			return &ReloadResult{Changes: []string{"x"}}, nil
		},
	})
	answered := func(what string, want, got any, err error) {
		t.Helper()
		check(t, err)
		if d := cmp.Diff(want, got, sameValues, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s answered (-want +got):\n%s", what, d)
		}
	}
	ctx := t.Context()
	status, err := r.client.Status(ctx)
	answered("status", &wantStatus, status, err)
	bans, err := r.client.Bans(ctx, bansQuery)
	answered("bans", &wantBans, bans, err)
	explanation, err := r.client.Explain(ctx, oneAddr)
	answered("explain", &wantExplanation, explanation, err)
	line, err := r.client.ExplainLine(ctx, lineQuery)
	answered("explain-line", &wantLine, line, err)
	banned, err := r.client.Ban(ctx, banRequest)
	answered("ban", &BanResult{Target: oneNet, Until: noon, Absorbed: []netip.Prefix{oneNet}}, banned, err)
	unbanned, err := r.client.Unban(ctx, unbanRequest)
	answered("unban", &UnbanResult{Lifted: 1}, unbanned, err)
	allowed, err := r.client.Allow(ctx, allowRequest)
	answered("allow", &AllowResult{Target: oneNet, Until: noon}, allowed, err)
	held, err := r.client.Hold(ctx, holdRequest)
	answered("hold", &HoldResult{Jail: "j", Mode: ModeHeld, Was: ModeEnforce}, held, err)
	confirmed, err := r.client.Confirm(ctx)
	answered("confirm", &ConfirmResult{Deadline: noon}, confirmed, err)
	reloaded, err := r.client.Reload(ctx)
	answered("reload", &ReloadResult{Changes: []string{"x"}}, reloaded, err)

	ctx, cancel := context.WithCancel(ctx)
	events, err := r.client.Follow(ctx)
	check(t, err)
	for _, want := range wantEvents {
		answered("events", want, <-events, nil)
	}
	cancel()
	if e, more := <-events; more {
		t.Errorf("after the end comes %+v", e)
	}
}

// Every code of an error arrives as it is, with its HTTP status.
func TestErrorsArrive(t *testing.T) {
	t.Parallel()
	var give error
	r := serve(t, &fake{hold: func(context.Context, Caller, HoldRequest) (*HoldResult, error) { return nil, give }})
	for code, status := range map[string]string{
		CodeBadRequest: "400", CodeDenied: "403", CodeNotFound: "404", CodeRefused: "409",
		CodeConfig: "422", CodeBusy: "503", CodeInternal: "500",
	} {
		want := &Error{Code: code, Message: "m", Hint: "h", Problems: []string{"a:1: x", "b:2: y"}}
		give = errors.Join(errors.New("wrapped"), want)
		_, err := r.client.Hold(t.Context(), HoldRequest{Jail: "j"})
		var got *Error
		if !errors.As(err, &got) || cmp.Diff(want, got) != "" {
			t.Errorf("%s arrives as %#v", code, err)
		}
		if got := r.raw(ControlSocket, post("/v1/hold", `{"jail":"j"}`)); !strings.HasPrefix(got, "HTTP/1.1 "+status) {
			t.Errorf("%s is answered %.40q", code, got)
		}
	}
	give = errors.New("disk on fire")
	_, err := r.client.Hold(t.Context(), HoldRequest{Jail: "j"})
	if codeOf(t, err) != CodeInternal || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("an internal error arrives as %v", err)
	}
	if len(r.log.said("control request failed")) == 0 {
		t.Error("an internal error is not logged")
	}
}

// Lists are never null, and a ban's line is a line of the answer.
func TestListsAreNeverNull(t *testing.T) {
	t.Parallel()
	r := serve(t, &fake{
		status: func(context.Context) (*Status, error) {
			return &Status{Logs: []LogStatus{{}}, Jails: []JailStatus{{}}}, nil
		},
		bans: func(context.Context, BansQuery) (*Bans, error) {
			return &Bans{Bans: []Ban{{Owners: []Owner{{}}}}}, nil
		},
	})
	for _, path := range []string{"/v1/status", "/v1/bans"} {
		got := r.raw(StatusSocket, get(path))
		if strings.Contains(got, "null") || !strings.Contains(got, "[]") {
			t.Errorf("%s has null: %s", path, got)
		}
	}
}

// Whatever is missing, the error says what and what to do.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	t.Run("no socket", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		_, err := NewClient(dir).Status(t.Context())
		wantError(t, err, CodeUnreachable, "no daemon answers", filepath.Join(dir, "status.sock")+" does not exist", "runtime_dir")
		_, err = NewClient(dir).Reload(t.Context())
		wantError(t, err, CodeUnreachable, filepath.Join(dir, "control.sock")+" does not exist")
	})
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, ControlSocket), nil, 0o666))
		_, err := NewClient(dir).Reload(t.Context())
		wantError(t, err, CodeUnreachable, "nobody listens")
	})
	t.Run("not HTTP", func(t *testing.T) {
		t.Parallel()
		_, err := NewClient(answering(t, "hello\r\n\r\n")).Reload(t.Context())
		if err == nil {
			t.Error("no error")
		}
	})
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		_, err := NewClient(answering(t, "")).Reload(t.Context())
		wantError(t, err, CodeUnreachable, "ended the connection")
		dir := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"bans\":[{\"target\":\"192.0.2.1/32\"},")
		_, err = NewClient(dir).Bans(t.Context(), BansQuery{})
		wantError(t, err, CodeUnreachable, "ended the connection")
	})
	t.Run("no reason", func(t *testing.T) {
		t.Parallel()
		_, err := NewClient(answering(t, "HTTP/1.1 502 Oops\r\nConnection: close\r\n\r\n<html>")).Reload(t.Context())
		wantError(t, err, CodeInternal, "502", "something else")
	})
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		long := "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"jail\":\"" + strings.Repeat("x", maxAnswer) + "\"}"
		_, err := NewClient(answering(t, long)).Hold(t.Context(), HoldRequest{})
		wantError(t, err, CodeInternal, "too long")
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := NewClient(answering(t, "")).Reload(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := NewClient(listening(t)).Reload(ctx)
		wantError(t, err, CodeBusy, "did not answer in time")
	})
}

// wantError checks the code and parts of an error's text.
func wantError(t testing.TB, err error, code string, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if got := codeOf(t, err); got != code {
		t.Errorf("the code is %s, want %s: %v", got, code, err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}
