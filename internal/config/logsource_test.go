package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const anyJail = "[jails.web]\nlimit = 1\nwindow = \"1s\"\nban = \"1s\"\n"

func TestLogSources(t *testing.T) {
	tests := []struct {
		keys   string
		want   Log
		source string
		warned string
	}{
		{`files = "/a"`, Log{Files: []string{"/a"}}, "", ""},
		{`journal = ["nginx.service", "shop@a.b\\x2d1.service", "user@1000.service"]`,
			Log{Journal: []string{"nginx.service", `shop@a.b\x2d1.service`, "user@1000.service"}},
			`the journal of nginx.service, shop@a.b\x2d1.service, user@1000.service`, ""},
		{`stdin = true`, Log{Stdin: true}, "standard input", ""},
		{`fifo = "/run//x.pipe"`, Log{FIFO: "/run/x.pipe"}, "the named pipe /run/x.pipe", ""},
		{"syslog = \"unix:/run//x.sock\"\nfrom_users = [\"www-data\", \"33\"]",
			Log{Syslog: &Syslog{Network: "unix", Address: "/run/x.sock", FromUsers: []string{"www-data", "33"}}},
			"syslog messages at unix:/run/x.sock", ""},
		{`syslog = "udp:127.0.0.1:514"`, Log{Syslog: &Syslog{Network: "udp", Address: "127.0.0.1:514"}},
			"syslog messages at udp:127.0.0.1:514", "any user and any program"},
		{`syslog = "tcp:[::1]:6514"`, Log{Syslog: &Syslog{Network: "tcp", Address: "[::1]:6514"}},
			"syslog messages at tcp:[::1]:6514", "any user and any program"},
		{"syslog = \"udp:[::ffff:10.0.0.1]:514\"\nallow_from = \"10.0.0.2\"",
			Log{Syslog: &Syslog{Network: "udp", Address: "10.0.0.1:514", AllowFrom: prefixes("10.0.0.2/32")}},
			"syslog messages at udp:10.0.0.1:514", "false address"},
		{"syslog = \"tcp:0.0.0.0:514\"\nallow_from = [\"10.0.0.0/8\", \"2001:db8::/32\"]",
			Log{Syslog: &Syslog{Network: "tcp", Address: "0.0.0.0:514", AllowFrom: prefixes("10.0.0.0/8", "2001:db8::/32")}},
			"syslog messages at tcp:0.0.0.0:514", ""},
	}
	for _, tt := range tests {
		c := accept(t, "[logs.b]\n"+tt.keys+"\n"+anyJail+fw)
		tt.want.Name, tt.want.Format, tt.want.MaxLine, tt.want.MaxFiles = "b", DefaultFormat, DefaultMaxLine, DefaultMaxFiles
		if diff := cmp.Diff([]Log{tt.want}, c.Logs, cmpopts.IgnoreUnexported(Log{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.keys, diff)
		}
		if got := c.Logs[0].Source(); got != tt.source {
			t.Errorf("%s: comes from %q, want %q", tt.keys, got, tt.source)
		}
		warned := ""
		for _, w := range c.Warnings() {
			warned += w.String()
		}
		if tt.warned == "" && warned != "" || !strings.Contains(warned, tt.warned) {
			t.Errorf("%s: warned %q, want %q", tt.keys, warned, tt.warned)
		}
	}
}
