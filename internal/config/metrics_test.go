package config

import "testing"

// Where metrics are served, as it may be said.
func TestMetrics(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{`metrics = "127.0.0.1:10911"`, "127.0.0.1:10911"},
		{`metrics = "127.9.9.9:80"`, "127.9.9.9:80"},
		{`metrics = "[::1]:10911"`, "[::1]:10911"},
		{`metrics = "[::ffff:127.0.0.1]:10911"`, "127.0.0.1:10911"},
		{`metrics = "socket"`, "socket"},
		{"metrics = \"0.0.0.0:10911\"\nmetrics_exposed = true", "0.0.0.0:10911"},
		{"metrics_exposed = true\nmetrics = \"[2001:db8::1]:10911\"", "[2001:db8::1]:10911"},
		{`metrics_exposed = false`, ""},
	} {
		m := accept(t, test.text+"\n"+base).Metrics
		if got := m.String(); got != test.want || m.Socket != (test.want == "socket") {
			t.Errorf("%s: %+v", test.text, m)
		}
		if m.Exposed != (m.Address.IsValid() && !m.Address.Addr().IsLoopback()) {
			t.Errorf("%s: exposed: %v", test.text, m.Exposed)
		}
	}
}
