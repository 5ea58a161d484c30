package parser

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func mustPreset(t testing.TB, name string, zone *time.Location) Format {
	t.Helper()
	f, err := NewPreset(name, zone)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const (
	presetCaddy = `{"level":"info","ts":1772701201.25,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"192.0.2.1","remote_port":"1","client_ip":"198.51.100.9",` +
		`"proto":"HTTP/2.0","method":"GET","host":"a.example:8443","uri":"/a?b","headers":{"User-Agent":["x"],"Referer":["r"],"X-Forwarded-For":["198.51.100.9","198.51.100.2"],` +
		`"Remote_ip":["203.0.113.66"]}},"user_id":"bob","size":12,"status":404,"resp_headers":{"remote_ip":["203.0.113.66"]}}`
	presetTraefik = `{"ClientAddr":"192.0.2.1:1","ClientHost":"198.51.100.9, 198.51.100.2","ClientPort":"1","ClientUsername":"-","DownstreamContentSize":12,"DownstreamStatus":404,` +
		`"RequestHost":"a.example","RequestMethod":"GET","RequestPath":"/a?b","RequestProtocol":"HTTP/1.1","ServiceURL":{"Host":"192.0.2.7:80","User":null},"StartUTC":"2026-03-05T09:00:01.25Z","request_Referer":"r","request_User-Agent":"x","time":"2026-03-05T09:00:02Z"}`
	presetNginx         = `{"time_iso8601":"2026-03-05T10:00:01+01:00","remote_addr":"192.0.2.1","remote_user":"bob","request":"GET /a?b HTTP/1.1","status":"404","body_bytes_sent":"12","host":"a.example","http_referer":"r","http_user_agent":"x","http_x_forwarded_for":"198.51.100.9, 198.51.100.2"}`
	presetCombined      = `192.0.2.1 - bob [05/Mar/2026:10:00:01 +0100] "GET /a?b HTTP/1.1" 404 12 "r" "x"`
	presetTraefikCLF    = presetCombined + ` 77 "web@docker" "http://192.0.2.7:80" 2ms`
	presetSquid         = `1772701201.250     12 192.0.2.1 TCP_MISS/404 12 GET http://a.example/a?b bob HIER_DIRECT/192.0.2.7 text/html`
	presetSquidCommon   = `192.0.2.1 - bob [05/Mar/2026:10:00:01 +0100] "GET http://a.example/a?b HTTP/1.1" 404 12 TCP_MISS:HIER_DIRECT`
	presetSquidCombined = `192.0.2.1 - bob [05/Mar/2026:10:00:01 +0100] "GET http://a.example/a?b HTTP/1.1" 404 12 "r" "x" TCP_MISS:HIER_DIRECT`
	presetHAProxy       = `192.0.2.1:54321 [05/Mar/2026:10:00:01.250] web~ app/a1 0/0/1/2/3 404 12 - - ---- 1/1/0/0/0 0/0 {a.example|x} {} "GET /a?b HTTP/1.1"`
)

func TestPresets(t *testing.T) {
	const at = `192.0.2.1 03-05T09:00:01 "GET" "/a?b" `
	const clfRest = `"HTTP/1.1" 404 12 ref="r" ua="x" user="bob" fwd="" partial=false host=""`
	const squidAt = `192.0.2.1 03-05T09:00:01 "GET" "http://a.example/a?b" `
	const haproxyRest = `"HTTP/1.1" 404 12 ref="" ua="" user="" fwd="" partial=false host=""`
	syslog := func(header string) string { return header + presetHAProxy }
	tests := []struct{ name, preset, line, want string }{
		{"Caddy", "caddy", presetCaddy, at + `"HTTP/2.0" 404 12 ref="r" ua="x" user="bob" fwd="198.51.100.9, 198.51.100.2" partial=false host="a.example:8443"`},
		{"Caddy without status", "caddy", strings.Replace(presetCaddy, `"status":404`, `"status":0`, 1),
			at + `"HTTP/2.0" 0 12 ref="r" ua="x" user="bob" fwd="198.51.100.9, 198.51.100.2" partial=false host="a.example:8443"`},
		{"Caddy, error of the same request", "caddy", strings.Replace(presetCaddy, "log.access", "log.error", 1), "not a record"},
		{"Caddy, another logger", "caddy", `{"level":"info","ts":1772701201.25,"logger":"tls","msg":"done"}`, "not a record"},
		{"Caddy, no logger and no request", "caddy", `{"level":"info","ts":1772701201.25,"msg":"done"}`, "malformed address"},
		{"Caddy, number for a logger", "caddy", strings.Replace(presetCaddy, `"http.log.access.log0"`, "1", 1), "not a record"},
		{"Caddy, client's address only", "caddy", strings.Replace(presetCaddy, `"remote_ip":"192`, `"x":"192`, 1), "malformed address"},
		{"Traefik", "traefik", presetTraefik, at + `"HTTP/1.1" 404 12 ref="r" ua="x" user="" fwd="198.51.100.9, 198.51.100.2" partial=false host="a.example"`},
		{"Traefik, IPv6", "traefik", strings.Replace(presetTraefik, `"192.0.2.1:1"`, `"[2001:db8::9]:1"`, 1),
			`2001:db8::9 03-05T09:00:01 "GET" "/a?b" "HTTP/1.1" 404 12 ref="r" ua="x" user="" fwd="198.51.100.9, 198.51.100.2" partial=false host="a.example"`},
		{"nginx", "nginx-json", presetNginx, at + `"HTTP/1.1" 404 12 ref="r" ua="x" user="bob" fwd="198.51.100.9, 198.51.100.2" partial=false host="a.example"`},
		{"nginx, request taken apart", "nginx-json", `{"time_iso8601":"2026-03-05T10:00:01+01:00","remote_addr":"192.0.2.1","request_method":"GET","request_uri":"/a?b","server_protocol":"HTTP/1.1","status":404,"body_bytes_sent":12}`,
			at + haproxyRest},
		{"nginx, bytes that are no request", "nginx-json", `{"time_iso8601":"2026-03-05T10:00:01+01:00","remote_addr":"192.0.2.1","request":"\u0016\u0003\u0001","request_method":"","status":"400"}`,
			`192.0.2.1 03-05T09:00:01 "" "\x16\x03\x01" "" 400 -1 ref="" ua="" user="" fwd="" partial=false host=""`},

		{"Squid", "squid", presetSquid, squidAt + `"" 404 12 ref="" ua="" user="bob" fwd="" partial=false host=""`},
		{"Squid, nobody", "squid", strings.Replace(presetSquid, " bob ", " - ", 1), squidAt + `"" 404 12 ref="" ua="" user="" fwd="" partial=false host=""`},
		{"Squid, slow", "squid", strings.Replace(presetSquid, "     12 ", " 1234567 ", 1), squidAt + `"" 404 12 ref="" ua="" user="bob" fwd="" partial=false host=""`},
		{"Squid, quote and fake fields in the URL", "squid", strings.Replace(presetSquid, "?b", `?b"203.0.113.66/200`, 1), strings.Replace(squidAt, "?b", `?b\"203.0.113.66/200`, 1) + `"" 404 12 ref="" ua="" user="bob" fwd="" partial=false host=""`},
		{"Squid, nothing came", "squid", `1772701201.250      0 192.0.2.1 NONE_NONE/000 0 - error:transaction-end-before-headers - HIER_NONE/- -`,
			`192.0.2.1 03-05T09:00:01 "" "error:transaction-end-before-headers" "" 0 0 ref="" ua="" user="" fwd="" partial=false host=""`},
		{"Squid, the next line glued on", "squid", `1772701201.250      0 192.0.2.1 NONE_NONE/400 5 GET http://a.example/allIED/403 9 GET http://b.example/ - HIER_NONE/- -`,
			`192.0.2.1 03-05T09:00:01 "GET" "http://a.example/allIED/403" "" 400 5 ref="" ua="" user="9" fwd="" partial=false host=""`},
		{"Squid, a name for the client", "squid", strings.Replace(presetSquid, "192.0.2.1", "a.example", 1), "malformed address"},
		{"Squid, whole seconds", "squid", strings.Replace(presetSquid, ".250", "", 1), "malformed time of 192.0.2.1"},
		{"Squid, no elapsed time", "squid", strings.Replace(presetSquid, " 12 192", " - 192", 1), "malformed time"},
		{"Squid, bad status", "squid", strings.Replace(presetSquid, "/404", "/4040", 1), "malformed status of 192.0.2.1"},
		{"Squid, no result", "squid", strings.Replace(presetSquid, "TCP_MISS/404", "404", 1), "malformed status of 192.0.2.1"},
		{"Squid, bad bytes", "squid", strings.Replace(presetSquid, " 12 GET", " x GET", 1), "malformed bytes of 192.0.2.1"},
		{"Squid, no URL", "squid", `1772701201.250      0 192.0.2.1 NONE_NONE/000 0 GET`, "malformed request of 192.0.2.1"},
		{"Squid's common", "squid-common", presetSquidCommon, squidAt + `"HTTP/1.1" 404 12 ref="" ua="" user="bob" fwd="" partial=false host=""`},
		{"Squid's common, quotes in URL and user", "squid-common", strings.Replace(strings.Replace(presetSquidCommon, "?b", `?b"200`, 1), " bob ", ` b" [05/Mar/2026:11:00:01 +0100%5D "b `, 1),
			strings.Replace(squidAt, "?b", `?b\"200`, 1) + `"HTTP/1.1" 404 12 ref="" ua="" user="b\" [05/Mar/2026:11:00:01 +0100%5D \"b" fwd="" partial=false host=""`},
		{"Squid's common, of another server", "squid-common", strings.TrimSuffix(presetSquidCommon, " TCP_MISS:HIER_DIRECT"), "malformed bytes of 192.0.2.1"},
		{"Squid's common, it is combined", "squid-common", presetSquidCombined, "malformed end of line of 192.0.2.1"},
		{"Squid's common, too long", "squid-common", `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET ` + strings.Repeat("a", 5000) + `203.0.113.66 - - [05/Mar/2026:10:00:01 +0100] "GET http://a.example/ HTTP/1.1" 200 5 A:B`,
			`192.0.2.1 03-05T09:00:01 "GET" "` + strings.Repeat("a", 5000) + `203.0.113.66" "" 0 -1 ref="" ua="" user="" fwd="" partial=true host=""`},
		{"Squid's combined", "squid-combined", presetSquidCombined, squidAt + `"HTTP/1.1" 404 12 ref="r" ua="x" user="bob" fwd="" partial=false host=""`},
		{"Squid's combined, hostile agent", "squid-combined", strings.Replace(presetSquidCombined, `"x"`, `"x" 200 5 "-" "y" A:B"`, 1),
			squidAt + `"HTTP/1.1" 404 12 ref="r" ua="x\" 200 5 \"-\" \"y\" A:B" user="bob" fwd="" partial=false host=""`},
		{"Squid's combined, of another server", "squid-combined", presetCombined, "malformed end of line of 192.0.2.1"},

		{"gunicorn", "gunicorn", presetCombined, at + clfRest},
		{"gunicorn, backslash before quotes", "gunicorn", strings.Replace(strings.Replace(presetCombined, "/a?b", `/a?b\\" 200 5 \"-\" \"`, 1), `"x"`, `"x\\" \"y\"`, 1),
			strings.Replace(at, "?b", `?b\\\\\\\" 200 5 \\\"-\\\" \\\"`, 1) + strings.Replace(clfRest, `"x"`, `"x\\\\\" \\\"y\\"`, 1)},
		{"gunicorn, backslash at the ends", "gunicorn", strings.Replace(strings.Replace(presetCombined, `"r"`, `"r\"`, 1), `"x"`, `"\"`, 1),
			at + strings.Replace(strings.Replace(clfRest, `"r"`, `"r\\"`, 1), `"x"`, `"\\"`, 1)},
		{"gunicorn, half a line", "gunicorn", `192.0.2.1 - bob`, "malformed time of 192.0.2.1"},
		{"gunicorn, no request", "gunicorn", `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET /\" HTTP/1.1`, "malformed request of 192.0.2.1"},
		{"gunicorn, bad status", "gunicorn", strings.Replace(presetCombined, "404", "4040", 1), "malformed status of 192.0.2.1"},
		{"gunicorn, bad bytes", "gunicorn", strings.Replace(presetCombined, " 12 ", " x ", 1), "malformed bytes of 192.0.2.1"},
		{"gunicorn, no agent", "gunicorn", strings.TrimSuffix(presetCombined, ` "x"`), "malformed referer of 192.0.2.1"},
		{"gunicorn, more behind", "gunicorn", presetCombined + " 5", "malformed agent of 192.0.2.1"},

		{"virtual host", "vhost_combined", "a.example:443 " + presetCombined, at + strings.Replace(clfRest, `host=""`, `host="a.example"`, 1)},
		{"virtual host, IPv6 name", "vhost_combined", "2001:db8::1:80 " + presetCombined, at + strings.Replace(clfRest, `host=""`, `host="2001:db8::1"`, 1)},
		{"virtual host without port", "vhost_combined", "a.example " + presetCombined, "malformed host"},
		{"virtual host, port only", "vhost_combined", ":80 " + presetCombined, "malformed host"},
		{"virtual host, bad port", "vhost_combined", "a.example:x " + presetCombined, "malformed host"},
		{"virtual host missing", "vhost_combined", presetCombined, "malformed host"},
		{"virtual host alone", "vhost_combined", "a.example:80", "malformed host"},
		{"virtual host and comment", "vhost_combined", "a.example:80 # x", "malformed host"},
		{"virtual host, name for the address", "vhost_combined", "a.example:80 x" + presetCombined, "malformed address"},
		{"virtual host, nothing", "vhost_combined", "\r", "not a record"},

		{"lighttpd", "lighttpd", strings.Replace(presetCombined, "- bob", "a.example bob", 1), at + strings.Replace(clfRest, `host=""`, `host="a.example"`, 1)},
		{"lighttpd without host", "lighttpd", presetCombined, at + clfRest},
		{"lighttpd, bad line", "lighttpd", "a.example " + presetCombined, "malformed address"},

		{"ingress-nginx", "ingress-nginx", presetCombined + ` 89 0.001 [default-web-80] [] 192.0.2.7:80 59 0.000 200 52`, at + clfRest},
		{"ingress-nginx, no upstream", "ingress-nginx", presetCombined + ` 0 0.000 [] [] - - - - 52`, at + clfRest},
		{"ingress-nginx, combined", "ingress-nginx", presetCombined, "malformed upstream of 192.0.2.1"},
		{"ingress-nginx, other numbers", "ingress-nginx", presetCombined + ` 89 1 [x]`, "malformed upstream of 192.0.2.1"},

		{"Traefik CLF", "traefik-clf", presetTraefikCLF, at + clfRest},
		{"Traefik CLF, no answer", "traefik-clf", strings.Replace(presetTraefikCLF, "404 12", "- -", 1), at + strings.Replace(clfRest, "404 12", "0 -1", 1)},
		{"Traefik CLF, raw quotes in the headers", "traefik-clf", strings.Replace(presetTraefikCLF, `"r" "x"`, `"r"" "x" 1 "a" "b" 1ms\"`, 1),
			at + `"HTTP/1.1" 404 12 ref="r\"" ua="x\" 1 \"a\" \"b\" 1ms\\" user="bob" fwd="" partial=false host=""`},
		{"Traefik CLF, backslash", "traefik-clf", strings.Replace(presetTraefikCLF, `"x"`, `"\"`, 1), at + strings.Replace(clfRest, `ua="x"`, `ua="\\"`, 1)},
		{"Traefik CLF, fake status in the agent", "traefik-clf", strings.Replace(presetTraefikCLF, `"x"`, `"" 200 5 "-" "y"`, 1),
			at + strings.Replace(clfRest, `ua="x"`, `ua="\" 200 5 \"-\" \"y"`, 1)},
		{"Traefik CLF, fake time in the agent", "traefik-clf", strings.Replace(presetTraefikCLF, `"x"`, `"[01/Jan/2020:00:00:00 +0000] "y"`, 1),
			at + strings.Replace(clfRest, `ua="x"`, `ua="[01/Jan/2020:00:00:00 +0000] \"y"`, 1)},
		{"Traefik CLF, quote in the query", "traefik-clf", strings.Replace(presetTraefikCLF, `/a?b`, `/a?"b`, 1), strings.Replace(at, `/a?b`, `/a?\"b`, 1) + clfRest},
		{"Traefik CLF, combined", "traefik-clf", presetCombined, "malformed end of line of 192.0.2.1"},
		{"Traefik CLF, whole header", "traefik-clf", "198.51.100.9, " + presetTraefikCLF, "malformed address"},
		{"Traefik CLF, no request", "traefik-clf", `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET /`, "malformed request of 192.0.2.1"},
		{"Traefik CLF, nothing", "traefik-clf", "", "not a record"},

		{"HAProxy", "haproxy", presetHAProxy, at + haproxyRest},
		{"HAProxy, IPv6", "haproxy", strings.Replace(presetHAProxy, "192.0.2.1:", "2001:db8::9:", 1), strings.Replace(at, "192.0.2.1", "2001:db8::9", 1) + haproxyRest},
		{"HAProxy, mapped", "haproxy", strings.Replace(presetHAProxy, "192.0.2.1:", "::ffff:192.0.2.1:", 1), at + haproxyRest},
		{"HAProxy, RFC 3164", "haproxy", syslog("<134>Mar  5 10:00:02 lb haproxy[12]: "), at + haproxyRest},
		{"HAProxy, RFC 3164 without priority", "haproxy", syslog("Mar 15 10:00:02 lb haproxy[12]: "), at + haproxyRest},
		{"HAProxy, RFC 3164, address as host", "haproxy", syslog("Mar 15 10:00:02 203.0.113.66 haproxy: "), at + haproxyRest},
		{"HAProxy, ISO time", "haproxy", syslog("2026-03-05T10:00:02+01:00 lb haproxy[12]: "), at + haproxyRest},
		{"HAProxy, RFC 5424", "haproxy", syslog("<134>1 2026-03-05T10:00:02.5+01:00 lb haproxy 12 - - "), at + haproxyRest},
		{"HAProxy, logged early", "haproxy", strings.Replace(presetHAProxy, "0/0/1/2/3 404 12", "0/0/1/2/+3 404 +12", 1), at + haproxyRest},
		{"HAProxy, no answer", "haproxy", strings.Replace(presetHAProxy, " 404 12 ", " -1 0 ", 1), at + strings.Replace(haproxyRest, "404 12", "0 0", 1)},
		{"HAProxy, bad request", "haproxy", `192.0.2.1:1 [05/Mar/2026:10:00:01.250] web web/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"`,
			`192.0.2.1 03-05T09:00:01 "" "" "" 400 0 ref="" ua="" user="" fwd="" partial=false host=""`},
		{"HAProxy, cut by itself", "haproxy", strings.TrimSuffix(presetHAProxy, ` HTTP/1.1"`),
			at + `"" 404 12 ref="" ua="" user="" fwd="" partial=true host=""`},
		{"HAProxy, cookie with quote and blank", "haproxy", strings.Replace(presetHAProxy, "12 - -", `12 c="GET /x HTTP/1.1" -`, 1), at + haproxyRest},
		{"HAProxy, httpslog", "haproxy", presetHAProxy + ` 0/0/0/0/0 www.example.com/TLSv1.3/TLS_AES_256_GCM_SHA384`, at + haproxyRest},
		{"HAProxy, httpslog, no name", "haproxy", presetHAProxy + ` 0/0/0/0/0 -/TLSv1.2/ECDHE-RSA-AES256-GCM-SHA384`, at + haproxyRest},
		{"HAProxy, httpslog, hostile name", "haproxy", presetHAProxy + ` 0/0/0/0/0 a "GET /forged HTTP/1.1"/TLSv1.3/TLS_AES_256_GCM_SHA384`, at + haproxyRest},
		{"HAProxy, text glued to the request", "haproxy", presetHAProxy + `x`, "malformed request of 192.0.2.1"},
		{"HAProxy, quotes in the request", "haproxy", strings.Replace(presetHAProxy, "/a?b", "/a#22#20b", 1),
			strings.Replace(at, "/a?b", `/a\" b`, 1) + haproxyRest},
		{"HAProxy, sharps that are no encoding", "haproxy", strings.Replace(presetHAProxy, "/a?b", "/#2#zz#23#", 1),
			strings.Replace(at, "/a?b", "/#2#zz##", 1) + haproxyRest},
		{"HAProxy, fake line in the request", "haproxy", strings.Replace(presetHAProxy, "/a?b", "/haproxy[1]: 203.0.113.66:1 [05/Mar/2026:10:00:01.250]", 1),
			strings.Replace(at, "/a?b", "/haproxy[1]: 203.0.113.66:1 [05/Mar/2026:10:00:01.250]", 1) + haproxyRest},
		{"HAProxy, no address", "haproxy", strings.Replace(presetHAProxy, "192.0.2.1:", "-:", 1), "malformed address"},
		{"HAProxy, unix socket", "haproxy", strings.Replace(presetHAProxy, "192.0.2.1:", "unix:", 1), "malformed address"},
		{"HAProxy, no port", "haproxy", strings.Replace(presetHAProxy, "192.0.2.1:54321", "192.0.2.1", 1), "malformed address"},
		{"HAProxy, no log format", "haproxy", "<134>Mar  5 10:00:02 lb haproxy[12]: Connect from 192.0.2.1:42275 to 192.0.2.2:80 (web/HTTP)", "malformed address"},
		{"HAProxy, start", "haproxy", "Mar  5 10:00:02 lb haproxy[12]: Proxy web started.", "malformed address"},
		{"HAProxy, handshake", "haproxy", "192.0.2.1:1 [05/Mar/2026:10:00:01.250] web/1: SSL handshake failure", "malformed frontend of 192.0.2.1"},
		{"HAProxy, TCP", "haproxy", "192.0.2.1:1 [05/Mar/2026:10:00:01.250] web app/a1 1/0/0 60 -- 1/1/0/0/0 0/0", "malformed frontend of 192.0.2.1"},
		{"HAProxy, no request", "haproxy", "192.0.2.1:1 [05/Mar/2026:10:00:01.250] web app/a1 0/0/1/2/3 404 12 - - ----", "malformed request of 192.0.2.1"},
		{"HAProxy, bad status", "haproxy", strings.Replace(presetHAProxy, " 404 ", " 4040 ", 1), "malformed status of 192.0.2.1"},
		{"HAProxy, bad bytes", "haproxy", strings.Replace(presetHAProxy, " 12 ", " x ", 1), "malformed bytes of 192.0.2.1"},
		{"HAProxy, time with an offset", "haproxy", strings.Replace(presetHAProxy, "01.250]", "01 +0100]", 1), "malformed time of 192.0.2.1"},
		{"HAProxy, impossible time", "haproxy", strings.Replace(presetHAProxy, "05/Mar", "32/Mar", 1), "malformed time of 192.0.2.1"},
		{"HAProxy, nothing", "haproxy", "#", "not a record"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := mustPreset(t, tt.preset, zoneHAProxy)
			if got := parsed(f, tt.line, false); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// An encoded byte does not hide what follows it from a condition on paths.
func TestHAProxyPath(t *testing.T) {
	f := mustPreset(t, "haproxy", zoneHAProxy)
	var ev Event
	if err := f.Parse([]byte(strings.Replace(presetHAProxy, "/a?b", "/x#7By/../sign-in?z", 1)), false, &ev); err != nil {
		t.Fatal(err)
	}
	if got := AppendPath(nil, ev.Target); string(got) != "/sign-in" {
		t.Errorf("path %q", got)
	}
}

func TestTraefikCLFTail(t *testing.T) {
	const line = presetCombined
	f := mustPreset(t, "traefik-clf", nil)
	for tail, want := range map[string]string{
		` 7 "r" "s" 2ms`:      "",
		` 7 "-" "-" 0ms`:      "",
		` 7 "a -> b" "s" 2ms`: "",
		` 7 "r" "s" ms`:       "malformed end of line of 192.0.2.1",
		` 7 "r" "s" 2s`:       "malformed end of line of 192.0.2.1",
		` 7 "r" s 2ms`:        "malformed end of line of 192.0.2.1",
		` 7 "r" 2ms`:          "malformed end of line of 192.0.2.1",
		` x "r" "s" 2ms`:      "malformed end of line of 192.0.2.1",
		` "r" "s" 2ms`:        "malformed end of line of 192.0.2.1",
		`7 "r" "s" 2ms`:       "malformed end of line of 192.0.2.1",
	} {
		got := parsed(f, line+tail, false)
		if want == "" && !strings.HasPrefix(got, "192.0.2.1 ") || want != "" && got != want {
			t.Errorf("%s: %s, want %q", tail, got, want)
		}
	}
	if got := parsed(f, strings.Replace(line, `"r" "x"`, `"r"`, 1)+` 7 "r" "s" 2ms`, false); got != "malformed agent of 192.0.2.1" {
		t.Errorf("no agent: %s", got)
	}
}

// presetLines has a line of each preset that has no relatives.
func presetLines() map[string]string {
	return map[string]string{
		"caddy": presetCaddy, "traefik": presetTraefik, "nginx-json": presetNginx, "haproxy": presetHAProxy,
		"traefik-clf": presetTraefikCLF, "vhost_combined": "a.example:80 " + presetCombined,
		"lighttpd":      strings.Replace(presetCombined, "- bob", "a.example bob", 1),
		"ingress-nginx": presetCombined + ` 89 0.001 [default-web-80] [] 192.0.2.7:80 59 0.000 200 52`,
		"squid":         presetSquid, "squid-common": presetSquidCommon, "squid-combined": presetSquidCombined,
		"combined": presetCombined, "gunicorn": strings.Replace(presetCombined, "/a?b", `/a?\\"`, 1), "nginx": presetCombined + ` "-"`, "common": strings.TrimSuffix(presetCombined, ` "r" "x"`),
	}
}

func TestDetectPresets(t *testing.T) {
	lines := presetLines()
	if len(lines) != len(FormatNames()) {
		t.Errorf("%d presets, %d of them have a line here", len(FormatNames()), len(lines))
	}
	for want, line := range lines {
		if got, n := Detect([][]byte{[]byte(line), []byte("noise"), []byte(line)}); got != want || n != 2 {
			t.Errorf("Detect(%s) = %s, %d, want %s, 2", line, got, n, want)
		}
	}
	// Most lines win, however many fields the few others have.
	if got, n := Detect([][]byte{[]byte(presetCaddy), []byte(presetHAProxy), []byte(presetHAProxy)}); got != "haproxy" || n != 2 {
		t.Errorf("Detect = %s, %d", got, n)
	}
}

// A format says that it has what its events hold, and nothing less.
func TestPresetFields(t *testing.T) {
	for name, line := range presetLines() {
		f := mustPreset(t, name, zoneHAProxy)
		var ev Event
		if err := f.Parse([]byte(line), false, &ev); err != nil {
			t.Fatal(err)
		}
		var got Fields
		for _, has := range []struct {
			field Fields
			is    bool
		}{
			{FieldTime, ev.Time != 0}, {FieldPeer, ev.Peer.IsValid()}, {FieldForward, ev.Forward != nil || name == "nginx"},
			{FieldMethod, ev.Method != nil}, {FieldPath, ev.Target != nil}, {FieldProto, ev.Proto != nil}, {FieldHost, ev.Host != nil},
			{FieldStatus, ev.Status != 0}, {FieldBytes, ev.Bytes >= 0}, {FieldReferer, ev.Referer != nil}, {FieldAgent, ev.Agent != nil},
			{FieldUser, ev.User != nil || name == "traefik"},
		} {
			if has.is {
				got |= has.field
			}
		}
		if got != f.Fields() {
			t.Errorf("%s holds %v, says %v", name, got, f.Fields())
		}
	}
}

func TestNewPresetUnknown(t *testing.T) {
	if _, err := NewPreset("x", nil); err == nil || err.Error() != `no log format is called "x"` {
		t.Errorf("%v", err)
	}
}

// A cut line counts, and shows nothing that the whole line does not, except
// for text that goes on.
func TestPresetsCut(t *testing.T) {
	for name, line := range presetLines() {
		f := mustPreset(t, name, zoneHAProxy)
		var whole Event
		if err := f.Parse([]byte(line), false, &whole); err != nil {
			t.Fatal(err)
		}
		counted := 0
		for n := range len(line) {
			var ev Event
			if f.Parse([]byte(line[:n]), true, &ev) != nil {
				continue
			}
			counted++
			if !ev.Partial || ev.Peer != whole.Peer || ev.Time != whole.Time ||
				ev.Status != 0 && ev.Status != whole.Status || ev.Bytes != -1 && ev.Bytes != whole.Bytes {
				t.Errorf("%s cut at %d: %s", name, n, show(&ev))
			}
			for _, f := range [][2][]byte{{ev.Forward, whole.Forward}, {ev.Agent, whole.Agent}, {ev.Referer, whole.Referer}, {ev.User, whole.User}, {ev.Host, whole.Host}} {
				if f[0] != nil && !bytes.Equal(f[0], f[1]) {
					t.Errorf("%s cut at %d: half of a field: %q", name, n, f[0])
				}
			}
		}
		if counted == 0 {
			t.Errorf("%s: no cut line counts", name)
		}
	}
}

func TestPresetsAllocateNothing(t *testing.T) {
	for name, line := range presetLines() {
		f := mustPreset(t, name, time.UTC)
		for _, l := range []string{line, line[:len(line)/2], "x " + line, strings.Replace(line, "/a?b", "/#22", 1)} {
			b := []byte(l)
			var ev Event
			_ = f.Parse(b, false, &ev) // the buffer grows
			if n := testing.AllocsPerRun(100, func() { _ = f.Parse(b, false, &ev) }); n != 0 {
				t.Errorf("%s: %v allocations for %s", name, n, l)
			}
		}
	}
}

func TestHAProxyTime(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Skipf("no zone database: %v", err)
	}
	for _, tt := range []struct {
		name  string
		texts []string // read one after the other
		want  string   // of the last
	}{
		{"winter", []string{"05/Mar/2026:10:00:01.250"}, "2026-03-05T15:00:01.25Z"},
		{"summer", []string{"05/Jul/2026:10:00:01.250"}, "2026-07-05T14:00:01.25Z"},
		{"leap second", []string{"31/Dec/2016:18:59:60.000"}, "2017-01-01T00:00:00Z"},
		{"twice, nothing before", []string{"01/Nov/2026:01:30:00.000"}, "2026-11-01T05:30:00Z"},
		{"twice, first time", []string{"01/Nov/2026:00:59:59.000", "01/Nov/2026:01:00:00.000"}, "2026-11-01T05:00:00Z"},
		{"twice, still the first time", []string{"01/Nov/2026:00:59:59.000", "01/Nov/2026:01:29:00.000", "01/Nov/2026:01:59:00.000"}, "2026-11-01T05:59:00Z"},
		{"twice, second time", []string{"01/Nov/2026:00:59:59.000", "01/Nov/2026:01:29:00.000", "01/Nov/2026:01:59:00.000", "01/Nov/2026:01:00:00.000"}, "2026-11-01T06:00:00Z"},
		{"after the second time", []string{"01/Nov/2026:01:59:00.000", "01/Nov/2026:02:00:00.000"}, "2026-11-01T07:00:00Z"},
		{"skipped", []string{"08/Mar/2026:02:30:00.000"}, "2026-03-08T07:30:00Z"},
		{"before the gap", []string{"08/Mar/2026:01:59:59.999"}, "2026-03-08T06:59:59.999Z"},
		{"after the gap", []string{"08/Mar/2026:03:00:00.000"}, "2026-03-08T07:00:00Z"},
		{"same minute", []string{"05/Mar/2026:10:00:01.250", "05/Mar/2026:10:00:59.001"}, "2026-03-05T15:00:59.001Z"},
		{"no such day", []string{"29/Feb/2026:10:00:01.250"}, ""},
		{"hour", []string{"05/Mar/2026:24:00:01.250"}, ""},
		{"minute", []string{"05/Mar/2026:10:60:01.250"}, ""},
		{"second", []string{"05/Mar/2026:10:00:61.250"}, ""},
		{"millisecond", []string{"05/Mar/2026:10:00:01.25x"}, ""},
		{"month", []string{"05/mar/2026:10:00:01.250"}, ""},
		{"separators", []string{"05/Mar/2026:10:00:01,250"}, ""},
		{"separators", []string{"05/Mar/2026 10:00:01.250"}, ""},
		{"year", []string{"05/Mar/9026:10:00:01.250"}, ""},
	} {
		c := haproxyClock{local: newLocalClock(newYork, time.Time{})}
		got := ""
		for _, s := range tt.texts {
			got = ""
			if ns, ok := c.parse([]byte(s)); ok {
				got = time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %q", tt.name, got, tt.want)
		}
	}
}

// The standard library is the oracle in every zone at hand: an instant
// written in local time comes back, or else the other one that the same text
// stands for.
func TestHAProxyTimeAgainstLibrary(t *testing.T) {
	const layout = "02/Jan/2006:15:04:05.000"
	for _, name := range []string{"UTC", "Europe/Zurich", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Skipf("no zone database: %v", err)
		}
		c := haproxyClock{local: newLocalClock(zone, time.Time{})}
		end := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
		for at := time.Date(2026, 1, 1, 0, 0, 0, 25e6, time.UTC); at.Before(end); at = at.Add(11 * time.Minute) {
			text := at.In(zone).Format(layout)
			ns, ok := c.parse([]byte(text))
			if !ok || ns != at.UnixNano() { // read in order, even the repeated hour is right
				t.Fatalf("%s: %s = %v, want %v", name, text, time.Unix(0, ns).UTC(), at)
			}
		}
	}
}

func BenchmarkPresets(b *testing.B) {
	for _, name := range FormatNames() {
		line := []byte(presetLines()[name])
		b.Run(name, func(b *testing.B) {
			f := mustPreset(b, name, zoneHAProxy)
			var ev Event
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Parse(line, false, &ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
