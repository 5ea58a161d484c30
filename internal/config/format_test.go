package config

import (
	"strings"
	"testing"

	"github.com/tailban/tailban/parser"
)

func TestFormats(t *testing.T) {
	const tail = "\n[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n"
	tests := []struct {
		name, log string
		problems  string // one a line; none: accepted
		line      string // of the log
		peer      string
	}{
		{name: "nginx, as in nginx.conf", log: `format = '''
log_format main '$remote_addr - $remote_user [$time_local] "$request" '
                '$status $body_bytes_sent "$http_referer" '
                '"$http_user_agent" "$http_x_forwarded_for"';
'''`, line: `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x" "198.51.100.1"`, peer: "192.0.2.1"},
		{name: "Apache", log: `format = '%h %l %u %t "%r" %>s %b'`,
			line: `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5`, peer: "192.0.2.1"},
		{name: "JSON", log: `format = "json"
fields = { peer = "ip", time = "t", agent = 'headers.User-Agent[0]' }`,
			line: `{"t":"2026-03-05T10:00:01Z","ip":"192.0.2.1","headers":{"User-Agent":["x"]}}`, peer: "192.0.2.1"},
		{name: "zone", log: "format = '%h \"%r\" %{%d/%b/%Y %H:%M:%S}t'\ntimezone = \"Europe/Berlin\"",
			line: `192.0.2.1 "GET / HTTP/1.1" 05/Mar/2026 10:00:01`, peer: "192.0.2.1"},
		{name: "no zone", log: "format = '%h \"%r\" %{%d/%b/%Y %H:%M:%S}t'", problems: `3: logs.a.format`},
		{name: "unknown zone", log: `timezone = "Europe/Berln"`,
			problems: `3: logs.a.timezone = "Europe/Berln": must be the name of a time zone, like "Europe/Berlin" or "UTC"`},
		{name: "misspelt preset", log: `format = "combned"`, problems: `3: logs.a.format = "combned": unknown format, did you mean "combined"?`},
		{name: "nothing between", log: `format = '$remote_addr$time_local "$request"'`, problems: `3: logs.a.format`},
		{name: "address behind what a client writes", log: `format = '$http_user_agent $remote_addr [$time_local]'`, problems: `3: logs.a.format`},
		{name: "a header that is not logged", log: "format = 'combined'\nheader = \"X-Real-IP\"", problems: `3: logs.a.format`},
		{name: "a header that the default doesn't log", log: `header = "X-Real-IP"`, problems: `3: logs.a.format: the default, "combined", can't be used`},
		{name: "a header for a preset", log: "format = \"caddy\"\nheader = \"CF-Connecting-IP\"", problems: `a preset uses the forwarding header that it has`},
		{name: "a zone for JSON", log: "format = \"json\"\nfields = { peer = \"ip\", time = \"t\" }\ntimezone = \"UTC\"", problems: `logs.a.timezone: is not for format = "json"`},
		{name: "what old servers don't escape", log: `format = '"%{SSL_TLS_SNI}x" %h %t "%r"'`, problems: `older servers (before 2.4.64) write it unescaped`},
		{name: "JSON with Apache's empty user name", log: "format = \"json\"\nfields = { peer = \"ip\", time = \"t\" }",
			line: `{"ip":"192.0.2.1","t":"2026-03-05T10:00:01Z","user":"""","x":1}`, peer: "192.0.2.1"},
		{name: "JSON without fields", log: `format = "json"`, problems: `3: logs.a.fields: required with format = "json"`},
		{name: "fields without JSON", log: `fields = { peer = "ip", time = "t" }`, problems: `3: logs.a.fields: are for format = "json" only`},
		{name: "JSON without a peer", log: "format = \"json\"\nfields = { time = \"t\" }", problems: `3: logs.a.format`},
		{name: "misspelt field", log: "format = \"json\"\nfields = { peer = \"ip\", time = \"t\", agnet = \"a\" }",
			problems: `4: logs.a.fields.agnet: unknown key, did you mean "agent"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Parse("jails.toml", []byte("[logs.a]\nfiles = \"/a.log\"\n"+tt.log+tail), nil)
			if tt.problems != "" || tt.line == "" {
				got := ""
				if err != nil {
					got = err.Error()
				}
				place := strings.TrimLeft(tt.problems, "0123456789")
				if !strings.Contains(got, place) {
					t.Fatalf("got %q, want %q", got, tt.problems)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f, err := c.Logs[0].Parser()
			if err != nil {
				t.Fatal(err)
			}
			var ev parser.Event
			if err := f.Parse([]byte(tt.line), false, &ev); err != nil || ev.Peer.String() != tt.peer {
				t.Errorf("parsed %v, %v", ev.Peer, err)
			}
		})
	}
}
