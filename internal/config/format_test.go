package config

import (
	"testing"

	"github.com/tailban/tailban/parser"
)

// Those that are refused are in testdata/script/bad-formats.txtar.
func TestFormats(t *testing.T) {
	const tail = "\n[jails.web]\nlimit = 50\nwindow = \"60s\"\nban = \"1h\"\n"
	tests := []struct {
		name, log string
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
		{name: "traefik-clf's peer told", log: "format = \"traefik-clf\"\npeer = \"connection\"",
			line: `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "-" 1 "a" "b" 1ms`, peer: "192.0.2.1"},
		{name: "JSON with Apache's empty user name", log: "format = \"json\"\nfields = { peer = \"ip\", time = \"t\" }",
			line: `{"ip":"192.0.2.1","t":"2026-03-05T10:00:01Z","user":"""","x":1}`, peer: "192.0.2.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := accept(t, "[logs.a]\nfiles = \"/a.log\"\n"+tt.log+tail)
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
