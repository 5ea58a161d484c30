package fakecloudflare

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func knownList(name string) bool { return name == "l" }

func inTestList(name string, a netip.Addr) bool {
	return name == "l" && a == netip.MustParseAddr("192.0.2.1")
}

func TestExpressions(t *testing.T) {
	v := Visit{Addr: netip.MustParseAddr("192.0.2.1"), At: time.Unix(1000, 0), Host: "a.example.com", Path: `/a"b`, Method: "GET", Agent: "x"}
	for _, c := range []struct {
		text string
		want bool
	}{
		{"(ip.src in $l and http.request.timestamp.sec lt 1001)", true},
		{"(ip.src in $l and http.request.timestamp.sec lt 1000)", false},
		{"ip.src in $l and http.request.timestamp.sec < 1001", true},
		{"(ip.src in $l) and not (http.request.timestamp.sec ge 1000)", false},
		{"not ip.src in $l", false},
		{"! ip.src in $l || true", true},
		{"http.request.timestamp.sec le 1000 && http.request.timestamp.sec >= 1000", true},
		{"http.request.timestamp.sec gt 999 and http.request.timestamp.sec ne 999", true},
		{"http.request.timestamp.sec in {1 1000}", true},
		{"false or true and false", false},
		{"true or true and false", true},
		{"true xor true", false},
		{"ip.src == 192.0.2.1", true},
		{"ip.src != 192.0.2.1", false},
		{"ip.src in {2001:db8::/32 192.0.2.0/24}", true},
		{"ip.src in {192.0.0.0/16}", true},
		{"ip.src in {192.0.0.0/23}", false},
		{"ip.src in {192.0.2.2..192.0.2.9}", false},
		{"ip.src in {::/0}", false},
		{`http.host eq "a.example.com"`, true},
		{`http.host in {"b" "c"}`, false},
		{`http.request.uri.path eq "/a\"b"`, true},
		{`http.user_agent contains "x" and http.request.method ne "POST"`, true},
	} {
		e, err := parseExpression(c.text, knownList)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := e.match(v, inTestList); got != c.want {
			t.Errorf("%s: %v", c.text, got)
		}
	}
}

func TestExpressionsThatAreWrong(t *testing.T) {
	for _, text := range []string{
		"", "()", "(ip.src in $l", "ip.src in $l)", "ip.src in $other", "ip.src in l", "ip.src", "ip.src lt 192.0.2.1",
		"ip.src eq host", "ip.src in {}", "ip.src in {192.0.2.1", "ip.src in {192.0.2.0/33}", "ip.source in $l",
		"http.request.timestamp.sec lt now", "http.request.timestamp.sec lt", "http.request.timestamp.sec like 1",
		`http.host eq a`, `http.host eq "a`, `http.host matches "a"`, "true false", "not", "true and", "true; false",
		strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60), strings.Repeat(" ", 5000) + "true",
	} {
		if _, err := parseExpression(text, knownList); err == nil {
			t.Errorf("%.60q is taken", text)
		}
	}
}

// What is read can be asked, whatever it is, and is no longer than it may be.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		"(ip.src in $l and http.request.timestamp.sec lt 1001)", `http.host in {"a" "b"}`, "not ip.src in {192.0.2.0/24 ::1..::9}",
		"ip.src in {0.0.0.0/0}", "true xor (false || !true)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseExpression(text, knownList)
		if err != nil {
			return
		}
		v := Visit{Addr: netip.MustParseAddr("192.0.2.1"), At: time.Unix(1000, 0)}
		yes := e.match(v, inTestList)
		not, err := parseExpression("not("+text+")", knownList)
		if err != nil {
			if len(text)+5 <= maxExpression && !strings.Contains(err.Error(), "deeply") {
				t.Fatalf("its opposite is refused: %v", err)
			}
			return
		}
		if not.match(v, inTestList) == yes {
			t.Errorf("%q and its opposite are both %v", text, yes)
		}
	})
}

// An address that is taken is written so that it is taken again, as the same.
func FuzzItem(f *testing.F) {
	for _, seed := range []string{"192.0.2.1", "192.0.2.0/24", "2001:DB8::/64", "2001:db8::1/128", "::ffff:192.0.2.1", "1.2.3.4/08", "fe80::1%a"} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, short bool) {
		p, err := parseItem(text, short)
		if err != nil {
			return
		}
		again, err := parseItem(show(p), short)
		if err != nil || again != p || p != p.Masked() || strings.ToLower(show(p)) != show(p) {
			t.Errorf("%q is %s, and that %s, %v", text, show(p), again, err)
		}
	})
}
