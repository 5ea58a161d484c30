package control

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The examples of the document work as they stand there.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	closed := make(chan Event)
	close(closed)
	r := serve(t, &fake{
		status:      func(context.Context) (*Status, error) { return &Status{}, nil },
		bans:        func(context.Context, BansQuery) (*Bans, error) { return &Bans{}, nil },
		explain:     func(context.Context, netip.Addr) (*Explanation, error) { return &Explanation{}, nil },
		explainLine: func(context.Context, LineQuery) (*LineExplanation, error) { return &LineExplanation{}, nil },
		follow:      func(context.Context) (<-chan Event, error) { return closed, nil },
		ban:         func(context.Context, Caller, BanRequest) (*BanResult, error) { return &BanResult{}, nil },
		unban:       func(context.Context, Caller, UnbanRequest) (*UnbanResult, error) { return &UnbanResult{}, nil },
		allow:       func(context.Context, Caller, AllowRequest) (*AllowResult, error) { return &AllowResult{}, nil },
		hold:        func(context.Context, Caller, HoldRequest) (*HoldResult, error) { return &HoldResult{}, nil },
		confirm:     func(context.Context, Caller) (*ConfirmResult, error) { return &ConfirmResult{}, nil },
		acceptList: func(context.Context, Caller, AcceptListRequest) (*AcceptListResult, error) {
			return &AcceptListResult{}, nil
		},
		reload: func(context.Context, Caller) (*ReloadResult, error) { return &ReloadResult{}, nil },
	}, func(s *Server) {
		s.Metrics = func(context.Context) ([]byte, error) { return []byte("tailban_healthy 1\n"), nil }
	})
	text, err := os.ReadFile("../../docs/control.md")
	check(t, err)
	examples := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(examples) < len(routes()) {
		t.Errorf("there are %d examples of %d verbs", len(examples), len(routes()))
	}
	for _, m := range examples {
		command := strings.ReplaceAll(m[1], "/run/tailban", r.dir)
		command = strings.ReplaceAll(command, "curl ", "curl -sS --fail-with-body -m 20 ")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		want := "{"
		if strings.Contains(command, "/metrics") {
			want = "tailban_healthy 1\n"
		}
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s\nends with %v, and says %s", command, err, out)
		}
	}
}
