package parser

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The three presets written out by hand, as their servers' configurations have them.
const (
	nginxCombined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`
	nginxMain     = nginxCombined + ` "$http_x_forwarded_for"`
	apacheCommon  = `%h %l %u %t "%r" %>s %b`
)

func mustNew(t testing.TB, spec string, o Options) Format {
	t.Helper()
	f, err := New(spec, o)
	if err != nil {
		t.Fatalf("New(%q): %v", spec, err)
	}
	return f
}

func TestNew(t *testing.T) {
	utc := Options{Zone: time.UTC}
	// All of them: 192.0.2.1 at 2026-03-05T09:00:01Z.
	tests := []struct {
		name, spec string
		o          Options
		line, want string // want: see show, less what all have in common
	}{
		{"nginx directive over lines", "log_format main '$remote_addr - $remote_user [$time_local] '\n\t# a comment\n\t\"\\\"$request\\\" \" '$status';", Options{},
			`192.0.2.1 - bob [05/Mar/2026:10:00:01 +0100] "GET /a HTTP/1.1" 200`,
			`"GET" "/a" "HTTP/1.1" 200 -1 ref="" ua="" user="bob" fwd="" partial=false`},
		{"nginx strings alone", `'$remote_addr [$time_local]' ' "$request"'`, Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET /a HTTP/1.1"`,
			`"GET" "/a" "HTTP/1.1" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"nginx escape=json", `log_format j escape=json '{"t":"$msec","a":"$remote_addr","m":"$request_method","u":"$request_uri","s":$status,"ua":"$http_user_agent"}';`, Options{},
			`{"t":"1772701201.250","a":"192.0.2.1","m":"GET","u":"/\"x","s":404,"ua":"a\\\" \"b\\"}`,
			`"GET" "/\\\"x" "" 404 -1 ref="" ua="a\\\\\\\" \\\"b\\\\" user="" fwd="" partial=false`},
		{"nginx escape=json, empty values", `escape=json $remote_addr $time_iso8601 "$request" $status $body_bytes_sent "$http_user_agent"`, Options{},
			`192.0.2.1 2026-03-05T10:00:01+01:00 ""   ""`,
			`"" "" "" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"nginx pieces of the request, braces", `${time_iso8601}|${remote_addr}|$request_method|"$uri$is_args$args"|$server_protocol|$bytes_sent|$status`, Options{},
			`2026-03-05T10:00:01.5+01:00|192.0.2.1|PUT|"/a b?c"|HTTP/2.0|7|201`,
			`"PUT" "/a b?c" "HTTP/2.0" 201 7 ref="" ua="" user="" fwd="" partial=false`},
		{"nginx another header", `$remote_addr [$time_local] "$http_cf_connecting_ip" "$http_x_forwarded_for"`, Options{Header: "CF-Connecting-IP"},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] "198.51.100.1" "198.51.100.2"`,
			`"" "" "" 0 -1 ref="" ua="" user="" fwd="198.51.100.1" partial=false`},
		{"nginx no header", `$remote_addr [$time_local] "$http_x_forwarded_for"`, Options{Header: NoHeader},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] "198.51.100.1"`,
			`"" "" "" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"nginx realip", `$remote_addr $realip_remote_addr [$time_local] "$request"`, Options{},
			`198.51.100.1 192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="" user="" fwd="198.51.100.1" partial=false`},
		{"nginx realip and the header", `$remote_addr $realip_remote_addr [$time_local] "$http_x_forwarded_for"`, Options{},
			`198.51.100.1 192.0.2.1 [05/Mar/2026:10:00:01 +0100] "198.51.100.2"`,
			`"" "" "" 0 -1 ref="" ua="" user="" fwd="198.51.100.2" partial=false`},
		{"free header before the time", `$remote_addr $http_x_forwarded_for [$time_local] "$request"`, Options{},
			`192.0.2.1 a [05/Mar/2026:11:00:01 +0100] [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="" user="" fwd="a [05/Mar/2026:11:00:01 +0100]" partial=false`},
		{"address before a quote, behind free text", `$http_x_a $remote_addr [$time_local] "$request"`, Options{},
			`203.0.113.1 [05/Mar/2026:10:00:02 +0100] 192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"free text that does not matter: first fit", `$remote_addr [$time_local] $http_referer $http_x_b "$request"`, Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] a b c "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="a" ua="" user="" fwd="" partial=false`},
		{"free text at the end", `$remote_addr [$time_local] $http_user_agent`, Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] a "b" c`,
			`"" "" "" 0 -1 ref="" ua="a \"b\" c" user="" fwd="" partial=false`},
		{"brackets, told from behind", `$remote_addr [$time_local] [$http_user_agent] [$status] "$request"`, Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] [a] [404] b] [200] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 200 -1 ref="" ua="a] [404] b" user="" fwd="" partial=false`},
		{"first of two counts", `$remote_addr [$time_local] "$http_user_agent" "$http_user_agent" "$request" "$request_uri" $request_method`, Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] "a" "b" "GET / HTTP/1.1" "/x" POST`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="a" user="" fwd="" partial=false`},

		{"Apache directive", `LogFormat "%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\"" vhost_combined`, Options{},
			`[2001:db8::1]:443 192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET /\"x HTTP/1.1" 200 5 "-" "a\\"`,
			`"GET" "/\\\"x" "HTTP/1.1" 200 5 ref="" ua="a\\\\" user="" fwd="" partial=false`},
		{"Apache, continued lines", "LogFormat \"%a %t \\\n%>s\" x", Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] 404`,
			`"" "" "" 404 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"Apache, as in the quotes", `%a %t \"%r\" %>s`, Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 404`,
			`"GET" "/" "HTTP/1.1" 404 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"Apache pieces of the request, modifiers", `%{c}a %{sec}t.%{msec_frac}t "%m" "%U%q" %H %!200,304<s %B %D %400,501{User-Agent}i`, Options{},
			`192.0.2.1 1772701201.500 "POST" "/a?b c" HTTP/1.1 302 9 1234 a b`,
			`"POST" "/a?b c" "HTTP/1.1" 302 9 ref="" ua="a b" user="" fwd="" partial=false`},
		{"Apache empty user", apacheCommon, Options{},
			`192.0.2.1 - "" [05/Mar/2026:10:00:01 +0100] "" 401 5`,
			`"" "" "" 401 5 ref="" ua="" user="\"\"" fwd="" partial=false`},
		{"Apache empty user in quotes", `%h "%u" %t "%r"`, Options{},
			`192.0.2.1 """" [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="" user="\"\"" fwd="" partial=false`},
		{"Apache remoteip", `%h %{c}a %t "%r"`, Options{},
			`198.51.100.1 192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="" user="" fwd="198.51.100.1" partial=false`},
		{"Apache time in pieces", `%h %u [%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] "%r"`, Options{},
			`192.0.2.1 a [05/Mar/2026:10:00:02.000000 +0100] [05/Mar/2026:10:00:01.000000 +0100] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="" user="a [05/Mar/2026:10:00:02.000000 +0100]" fwd="" partial=false`},
		{"Apache time without offset", `%{begin:%a %e %h %y %H:%M:%S}t %h`, utc,
			`Thu  5 Mar 26 09:00:01 192.0.2.1`,
			`"" "" "" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"Apache time of twelve hours", `%h %{%c}t|%{%r}t`, utc,
			`192.0.2.1 Thu Mar  5 09:00:01 2026|09:00:01 AM`,
			`"" "" "" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"Apache time without a year", `%h [%{%b %e %k:%M:%S}t] "%r"`, Options{Zone: time.UTC, Now: time.Unix(1772701300, 0)},
			`192.0.2.1 [Mar  5  9:00:01] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"Apache, all directives", `%a %A %B %f %H %I %k %L %m %n %O %P %q %R %S %^FB %v %V %X %{sec}t "%r"`, Options{},
			`192.0.2.1 192.0.2.2 5 /srv/a HTTP/1.1 10 0 - GET - 20 123 ?a proxy 30 1234 www.example.com www.example.com + 1772701201 "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 5 ref="" ua="" user="" fwd="" partial=false`},
		{"Apache with a dollar sign", `$ %a %{sec}t $`, Options{},
			`$ 192.0.2.1 1772701201 $`,
			`"" "" "" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"percent sign", `100%% %a %{usec}t`, Options{},
			`100% 192.0.2.1 1772701201000000`,
			`"" "" "" 0 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"Apache's string with its quotes", `"%h %t \"%r\" %>s \"%{User-agent}i\""`, Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 "x"`,
			`"GET" "/" "HTTP/1.1" 200 -1 ref="" ua="x" user="" fwd="" partial=false`},
		{"nginx's string with its quotes", `"$remote_addr [$time_local] \"$request\" $status"`, Options{},
			`192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200`,
			`"GET" "/" "HTTP/1.1" 200 -1 ref="" ua="" user="" fwd="" partial=false`},
		{"quotes at both ends", `"%{User-agent}i" %h %t "%r"`, Options{},
			`"x" 192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1"`,
			`"GET" "/" "HTTP/1.1" 0 -1 ref="" ua="x" user="" fwd="" partial=false`},
		{"preset", " combined\n", Options{},
			`192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x"`,
			`"GET" "/" "HTTP/1.1" 200 5 ref="" ua="x" user="" fwd="" partial=false`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ev Event
			if err := mustNew(t, tt.spec, tt.o).Parse([]byte(tt.line), false, &ev); err != nil {
				t.Fatal(err)
			}
			if got, want := show(&ev), `192.0.2.1 03-05T09:00:01 `+tt.want; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name, spec string
		o          Options
		want       string
	}{
		{"nothing", "", Options{}, `log format, byte 0: neither a preset nor a format with $variables or %directives; presets are ` + strings.Join(FormatNames(), ", ")},
		{"no preset", "combinde", Options{}, `log format, byte 0 (combinde): neither a preset nor a format with $variables or %directives; presets are ` + strings.Join(FormatNames(), ", ")},
		{"no peer", `[$time_local] "$request"`, Options{}, `log format, byte 24: the address of the client's connection is missing; log $remote_addr (nginx) or %a (Apache)`},
		{"no time", `%h "%r"`, Options{}, `log format, byte 7: the time is missing; log [$time_local] (nginx) or %t (Apache)`},
		{"nothing between", `$remote_addr$remote_user [$time_local]`, Options{}, `log format, byte 12 ($remote_user): nothing separates it from $remote_addr before it; put a blank or quotes between them`},
		{"peer of some answers", `%400,501h %t "%r"`, Options{}, `log format, byte 0 (%400,501h): is written for answers with some statuses only: the others would count for nobody; leave the statuses out`},
		{"time of some answers", `%h %!200t "%r"`, Options{}, `log format, byte 3 (%!200t): is written for answers with some statuses only: the others would count for nobody; leave the statuses out`},
		{"header of some answers", `%h %t "%r" "%!200{X-Forwarded-For}i"`, Options{}, `log format, byte 12 (%!200{X-Forwarded-For}i): is written for answers with some statuses only: the others would count for nobody; leave the statuses out`},
		{"access_log", "access_log /var/log/nginx/access.log main;", Options{}, `log format, byte 0 (access_log): names a file and a format, and is no format itself; copy the log_format that it names, or give "combined" if it names none`},
		{"CustomLog", `CustomLog /var/log/x "%h %t \"%r\""`, Options{}, `log format, byte 0 (CustomLog): names a file and a format, and is no format itself; copy the LogFormat that it names, or only the text in its quotes if that has % in it`},
		{"nothing between, Apache", `%h %t%r`, Options{}, `log format, byte 5 (%r): nothing separates it from %t before it; put a blank or quotes between them`},
		{"query without its mark", `$remote_addr [$time_local] "$uri$args"`, Options{}, `log format, byte 32 ($args): a query behind $uri without the question mark between them cannot be told from the path; write $uri$is_args$args, or $request_uri`},
		{"agent before the peer, to the end", `[$time_local] $http_user_agent $remote_addr`, Options{}, `log format, byte 31 ($remote_addr): $http_user_agent before it is not quoted and can hold the " " between them; put quotes around $http_user_agent, or move $remote_addr to the front`},
		{"agent before the peer", `[$time_local] $http_user_agent $remote_addr $http_referer "$request"`, Options{}, `log format, byte 31 ($remote_addr): $http_user_agent before it is not quoted and can hold the " " between them; put quotes around $http_user_agent, or move $remote_addr to the front`},
		{"header before user", `%{X-Forwarded-For}i %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %a`, Options{}, `log format, byte 0 (%{X-Forwarded-For}i): where it ends cannot be told: it can hold the " " behind it; put quotes around %{X-Forwarded-For}i`},
		{"header before user, header unused", `%{X-Forwarded-For}i %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %a`, Options{Header: NoHeader}, `log format, byte 26 (%t): %u before it is not quoted and can hold the " " between them; put quotes around %u, or move %t to the front`},
		{"brackets are no quotes", `$remote_addr [$time_local] [$http_a] $status [$http_b] "$request"`, Options{}, `log format, byte 37 ($status): $http_a before it is not quoted and can hold the "] " between them; put quotes around $http_a, or move $status to the front`},
		{"status behind free text", `$remote_addr [$time_local] $request_uri $status`, Options{}, `log format, byte 40 ($status): $request_uri before it is not quoted and can hold the " " between them; put quotes around $request_uri, or move $status to the front`},
		{"request without quotes", `$remote_addr [$time_local] $request $status`, Options{}, `log format, byte 27 ($request): where it ends cannot be told: it can hold the " " behind it; put quotes around $request`},
		{"two free texts and the time", `$remote_addr $remote_user $time_local $http_referer "$request"`, Options{}, `log format, byte 26 ($time_local): $remote_user before it is not quoted and can hold the " " between them; put quotes around $remote_user, or move $time_local to the front`},
		{"escape=none, decoded", `log_format x escape=none '$remote_addr [$time_local] "$uri"';`, Options{}, `log format, byte 54 ($uri): with escape=none it can hold a line feed, and so a client can write whole lines of this log; use escape=default, or leave it out`},
		{"escape=none, user", `log_format x escape=none '$remote_addr - $remote_user [$time_local]';`, Options{}, `log format, byte 41 ($remote_user): with escape=none it can hold a line feed, and so a client can write whole lines of this log; use escape=default, or leave it out`},
		{"escape=none, unknown", `log_format x escape=none '$remote_addr [$time_local] $mine';`, Options{}, `log format, byte 53 ($mine): with escape=none it can hold a line feed, and so a client can write whole lines of this log; use escape=default, or leave it out`},
		{"escape=none, request", `log_format x escape=none '$remote_addr [$time_local] "$request" $status "$http_referer"';`, Options{}, `log format, byte 54 ($request): values are not escaped, so its place in the line can be forged; use escape=default in the log_format`},
		{"escaping unknown", `log_format x escape=yes '$remote_addr';`, Options{}, `log format, byte 13 (escape=yes): no such escaping; nginx knows default, json and none`},
		{"no offset", `%h %{%Y-%m-%d %T}t`, Options{}, `log format, byte 3 (%{%Y-%m-%d %T}t): this time has no offset from UTC; add %z to it, or set the log's timezone`},
		{"no year", `%h [%{%b %d %T}t] "%r"`, Options{Zone: time.UTC}, `log format, byte 4 (%{%b %d %T}t): this time has no year; use %{%Y-%m-%dT%H:%M:%S%z}t or %t`},
		{"zone's name", `%h %{%Y-%m-%d %T %Z}t`, Options{}, `log format, byte 17 (%Z): this piece of a time cannot be read; use %z: names of zones are not unique; a server that runs in UTC can write UTC instead, with the log's timezone set to it`},
		{"twelve hours", `%h %{%Y-%m-%d %I:%M:%S}t`, Options{Zone: time.UTC}, `log format, byte 3 (%{%Y-%m-%d %I:%M:%S}t): this time has an hour of twelve, without AM or PM; use %H, or add %p`},
		{"day without padding", `%h %{%b %-d %H:%M:%S}t`, Options{}, `log format, byte 8 (%-): this piece of a time cannot be read; use the letter alone, as in %d or %e`},
		{"name of a month", `%h %{%d %B %Y}t`, Options{}, `log format, byte 8 (%B): this piece of a time cannot be read; use the short form: %b, %a`},
		{"part twice", `%h %{%F %Y}t`, Options{}, `log format, byte 8 (%Y): this piece of a time is there already`},
		{"percent at the end of a time", `%h %{%Y%}t`, Options{}, `log format, byte 7 (%): a percent sign without a letter; write %% for a plain %`},
		{"header not logged", `$remote_addr [$time_local]`, Options{Header: "X-Real-IP"}, `log format, byte 26: the header X-Real-IP is to be used, but is not logged; add "$http_x_real_ip" (nginx) or "%{X-Real-IP}i" (Apache), with the quotes`},
		{"no name", `log_format '$remote_addr';`, Options{}, `log format, byte 11: log_format without a name; write log_format NAME '…';`},
		{"open quote", `log_format x '$remote_addr`, Options{}, `log format, byte 13 ('): this quote is never closed`},
		{"open quote, Apache", `LogFormat "%h`, Options{}, `log format, byte 10 ("): this quote is never closed`},
		{"no quotes, Apache", `LogFormat %h`, Options{}, `log format, byte 10: LogFormat without quotes around its format; write LogFormat "…" name`},
		{"nothing, Apache", `LogFormat `, Options{}, `log format, byte 10: LogFormat without a format; write LogFormat "…" name`},
		{"two directives", `log_format x '$remote_addr'; log_format y '$msec';`, Options{}, `log format, byte 28: text behind the format's semicolon; give one log_format only`},
		{"two directives, Apache", "LogFormat \"%h\" x\nLogFormat \"%t\" y", Options{}, `log format, byte 17 (LogFormat): more than a name behind the format; give one LogFormat only`},
		{"dollar alone", `$remote_addr $ `, Options{}, `log format, byte 13 ($): a dollar sign without a variable's name; nginx has no way to log a plain $`},
		{"open brace", `${remote_addr $status`, Options{}, `log format, byte 0 (${remote_addr): this brace is never closed; write ${remote_addr}`},
		{"open brace, Apache", `%h %{Referer`, Options{}, `log format, byte 3 (%{Referer): this brace is never closed`},
		{"percent alone", `%h %`, Options{}, `log format, byte 3 (%): a percent sign without a directive; write %% for a plain %`},
		{"unknown directive", `%h %t %y`, Options{}, `log format, byte 6 (%y): Apache has no such directive`},
		{"two lines", "$remote_addr\n[$time_local]", Options{}, `log format, byte 12: a line feed: a record must be one line; give the format in one line, or the directive with its quotes`},
		{"two lines, Apache", `%h\n%t`, Options{}, `log format, byte 2 (\n): a line feed: a record must be one line`},
		{"preset without a header", "combined", Options{Header: "X-Real-IP"}, `log format, byte 0 (combined): the header X-Real-IP is to be used, but this preset logs none; write the format out as the server has it`},
		{"preset without its header", "nginx", Options{Header: NoHeader}, `log format, byte 0 (nginx): this preset uses its forwarding header; write the format out to leave the header aside`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.spec, tt.o)
			var refused *SpecError
			if !errors.As(err, &refused) {
				t.Fatalf("error %v, want a *SpecError", err)
			}
			if got := err.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if refused.Offset < 0 || refused.Offset > len(tt.spec) {
				t.Errorf("offset %d is outside of the spec", refused.Offset)
			}
		})
	}
}

// Whatever the text: no panic; a refusal has a place inside it, and what is
// accepted logs a peer and a time, and parses no line to a panic.
func FuzzNew(f *testing.F) {
	for _, s := range []string{nginxMain, apacheCommon, "log_format x escape=json '$remote_addr' \"\\\"$msec\";", "${", "%{", "%{%Y",
		`LogFormat "%h %{%d/%b/%Y:%T}t.%{msec_frac}t %{%z}t \"%r\"" x`, "combined", "'$remote_addr $mine [$time_local] ';", "$uri$is_args$args"} {
		f.Add(s, "", "192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] \"GET / HTTP/1.1\" 200 5", false)
	}
	f.Add(nginxMain, "X-Real-IP", `"`, true)
	f.Fuzz(func(t *testing.T, spec, header, line string, cut bool) {
		format, err := New(spec, Options{Header: header, Zone: time.UTC})
		if err != nil {
			var refused *SpecError
			if !errors.As(err, &refused) || refused.Offset < 0 || refused.Offset > len(spec) || refused.Msg == "" {
				t.Fatalf("New(%q): %#v", spec, err)
			}
			return
		}
		if !format.Fields().Has(FieldPeer | FieldTime) {
			t.Fatalf("New(%q) logs only %v", spec, format.Fields())
		}
		var ev Event
		if err := format.Parse([]byte(line), cut, &ev); err == nil && !ev.Peer.IsValid() {
			t.Fatalf("%q gave no peer of %q", spec, line)
		}
	})
}

// The place is that in the text as given, before quoting is undone.
func TestSpecErrorPlace(t *testing.T) {
	const spec = "log_format x '$remote_addr [$time_local] '\n  \"$http_a \\\"$request $status\";"
	_, err := New(spec, Options{})
	var refused *SpecError
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	if got := spec[refused.Offset:][:len(refused.Text)]; got != refused.Text || got != "$request" {
		t.Errorf("offset %d is at %q, text %q", refused.Offset, got, refused.Text)
	}
}
