package parser

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hostileText draws what an attacker may send in a field.
func hostileText() *rapid.Generator[string] {
	piece := rapid.SampledFrom([]string{
		" ", "-", `"`, `\`, "[", "]", `] "`, `" `, ` "`, "x", "/", "203.0.113.66", " - ", ", ", "\x00", "\t", "\xff", "é", "'",
		"[01/Jan/2020:00:00:00 +0000]", ` [05/Mar/2026:10:00:02 +0100] "GET / HTTP/1.1" 200 5 "-" "x"`,
		"2026-03-05T10:00:02+01:00", "1772701202.000", "1772701202", "200", "404", "|", "{", "}", `\"`, `\\`, `\x22`, ":", "\\\\\"", ";", "?",
	})
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 5).Draw(t, "any") == 0 {
			return strings.ReplaceAll(rapid.String().Draw(t, "text"), "\n", "")
		}
		return strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
	})
}

// The presets written out give exactly the events of the hand-written parser,
// on whole and on cut lines.
func TestCompiledEqualsHandWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		apache := rapid.Bool().Draw(t, "apache")
		escape, noUser := escapeNginx, "-"
		if apache {
			escape, noUser = escapeApache, `""`
		}
		draw := func(name string) string { return escape(hostileText().Draw(t, name)) }
		user := draw("user")
		if user == "" {
			user = noUser
		}
		line := rapid.SampledFrom([]string{"192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "unix:", "host.example"}).Draw(t, "peer") +
			" - " + user + " [" + rapid.SampledFrom([]string{"05/Mar/2026:10:00:01 +0100", "29/Feb/2023:10:00:01 +0100"}).Draw(t, "time") + `] "` +
			draw("request") + `" ` + rapid.SampledFrom([]string{"200", "404", "-", "000", "2000"}).Draw(t, "status") + " " +
			rapid.SampledFrom([]string{"0", "5", "-", "123456789012345678", "x"}).Draw(t, "bytes")
		spec, hand := apacheCommon, clfCommon
		if rapid.Bool().Draw(t, "combined") {
			line += ` "` + draw("referer") + `" "` + draw("agent") + `"`
			spec, hand = apacheCommon+` "%{Referer}i" "%{User-Agent}i"`, clfCombined
			if rapid.Bool().Draw(t, "forward") {
				line += ` "` + draw("forward") + `"`
				spec, hand = spec+` "%{X-Forwarded-For}i"`, clfForward
			}
		}
		if !apache {
			spec = nginxMain
			for n := hand; n < clfForward; n++ {
				spec = spec[:strings.LastIndex(spec, [...]string{clfCommon: ` "$http_referer"`, clfCombined: ` "$http_x`}[n])]
				if n == clfCommon {
					break
				}
			}
		}
		cut := rapid.Bool().Draw(t, "cut")
		if cut {
			line = line[:rapid.IntRange(0, len(line)).Draw(t, "at")]
		} else {
			line += rapid.SampledFrom([]string{"", "\r", " ", " more", ` "more"`, "glued"}).Draw(t, "tail")
		}
		var want, got Event
		wantErr := (&clf{fields: hand}).Parse([]byte(line), cut, &want)
		f, err := New(spec, Options{})
		if err != nil {
			t.Fatal(err)
		}
		gotErr := f.Parse([]byte(line), cut, &got)
		if (wantErr == nil) != (gotErr == nil) {
			t.Fatalf("%q: error %v, by hand %v", line, gotErr, wantErr)
		}
		if wantErr == nil && show(&got) != show(&want) {
			t.Fatalf("%q:\ngot     %s\nby hand %s", line, show(&got), show(&want))
		}
		if f.Fields() != (&clf{fields: hand}).Fields() {
			t.Fatalf("fields %v, by hand %v", f.Fields(), (&clf{fields: hand}).Fields())
		}
	})
}

// Wherever a line is cut, what is told of it is true.
func TestCompiledCut(t *testing.T) {
	for _, spec := range []string{
		`$remote_addr [$time_local] "$request" $status $body_bytes_sent "$http_x_forwarded_for"`,
		`$remote_addr [$time_local] "$request_method" $request_uri`,
	} {
		f := mustNew(t, spec, Options{})
		line := `192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET /a HTTP/1.1" 404 12 "198.51.100.1"`
		begin := strings.Index(line, `"GET`) + 1
		if !strings.Contains(spec, `"$request"`) {
			line = `192.0.2.1 [05/Mar/2026:10:00:01 +0100] "GET" /a`
			begin = len(line) - len("/a")
		}
		for n := range len(line) {
			var ev Event
			err := f.Parse([]byte(line[:n]), true, &ev)
			if (err == nil) != (n >= begin) {
				t.Errorf("%s cut at %d: error %v", spec, n, err)
			}
			if err != nil {
				continue
			}
			if !ev.Partial || ev.Peer.String() != "192.0.2.1" || ev.Time != 1772701201e9 || ev.Forward != nil ||
				ev.Status != 0 && ev.Status != 404 || ev.Bytes != -1 && ev.Bytes != 12 {
				t.Errorf("%s cut at %d: %s", spec, n, show(&ev))
			}
		}
	}
}

// A cut line of a format without a request counts from the end of its time.
func TestCompiledCutBehindTime(t *testing.T) {
	for _, spec := range []string{`%h [%{%F %T %z}t] "%{A}i"`, `%h "%{A}i" [%{%F %T %z}t] "%{B}i"`, `%h %l %u <%{%F %T %z}t> "%{A}i"`} {
		f := mustNew(t, spec, Options{})
		line := strings.NewReplacer("%h", "192.0.2.1", "%l", "-", "%u", "-", "%{A}i", "a", "%{B}i", "b", "%{%F %T %z}t", "2026-03-05 10:00:01 +0100").Replace(spec)
		end := strings.Index(line, "+0100") + len("+0100")
		if strings.Contains(spec, "%u") { // which can hold a time as well, up to the quote
			end += len(`> "`)
		}
		for n := range len(line) {
			var ev Event
			if err := f.Parse([]byte(line[:n]), true, &ev); (err == nil) != (n >= end) || err == nil && ev.Time != 1772701201e9 {
				t.Errorf("%s cut at %d: error %v, time %d", spec, n, err, ev.Time)
			}
		}
	}
}

// A dash is no value on a cut line either, in no parser.
func TestCutAfterDash(t *testing.T) {
	line := []byte(`192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-"`)
	for _, spec := range []string{"nginx", nginxMain} {
		var ev Event
		if err := mustNew(t, spec, Options{}).Parse(line, true, &ev); err != nil || ev.Referer != nil {
			t.Errorf("%s: error %v, referer %q", spec, err, ev.Referer)
		}
	}
}

func TestFieldsString(t *testing.T) {
	f := mustNew(t, `$host $remote_addr $msec $status "$http_x_forwarded_for"`, Options{}).Fields()
	if got, want := f.String(), "time, peer, forwarding header, host, status"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCompiledOtherLines(t *testing.T) {
	f := mustNew(t, nginxCombined, Options{})
	free := mustNew(t, `"$http_a" $remote_addr $msec`, Options{})
	bare := mustNew(t, `$server_name $remote_addr $msec`, Options{})
	for _, tt := range []struct {
		f    Format
		line string
		want string
	}{
		{f, "", "not a record"},
		{f, "\r", "not a record"},
		{f, "\x00\x00", "not a record"},
		{f, "#Fields: date", "not a record"},
		{f, "www.example.net - -", "malformed address"},
		{f, "192.0.2.1 - a", "malformed time"},
		{f, `192.0.2.1 - - [05/Mar/2026:25:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x"`, "malformed time"},
		{f, `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1 200 5`, "malformed request"},
		{f, `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 2000 5 "-" "x"`, "malformed status"},
		{f, `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 x "-" "x"`, "malformed bytes"},
		{f, `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-`, "malformed referer"},
		{f, `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-" "x"y`, "malformed agent"},
		{f, `192.0.2.1 - - [05/Mar/2026:10:00:01 +0100] "GET / HTTP/1.1" 200 5 "-"_"an agent"`, "malformed referer"},
		{free, `192.0.2.1 1772701201.000`, "malformed text between fields"},
		{free, `"#" 192.0.2.1 1772701201.000`, ""},
		{bare, `# 192.0.2.1 1772701201.000`, ""}, // a name of a host, not a comment
	} {
		var ev Event
		got := ""
		if err := tt.f.Parse([]byte(tt.line), false, &ev); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestCompiledAllocatesNothing(t *testing.T) {
	for spec, lines := range map[string][]string{
		nginxMain: {
			`2001:db8::9 - a b [05/Mar/2026:10:00:01 +0100] "GET /a HTTP/1.1" 404 12 "-" "agent\x22" "198.51.100.1"`,
			`2001:db8::9 - - [05/Mar/2026:10:00:01 +0100] "GET /a HTTP/1.1" - - "-" "agent" "198.51.100.1"`,
			`x - - nothing`, `# comment`,
		},
		`%{%Y-%m-%d %H:%M:%S}t %h %{Referer}i %{A}i "%{User-Agent}i"`: {`2026-03-05 10:00:01 192.0.2.1 a b c "\"\\"`, `2026-03-05 10:00:02 192.0.2.1 a`},
		`$remote_addr $msec "$uri"`:                                   {`192.0.2.1 1772701201.000 "/a%2fb?"`},
		`$time_iso8601 $remote_addr $http_a`:                          {`2026-03-05T10:00:01+01:00 192.0.2.1 x`, `2026-03-05T10:00:02+01:00 192.0.2.1 x`},
	} {
		f := mustNew(t, spec, Options{Zone: berlin(t)})
		for _, line := range lines {
			b := []byte(line)
			var ev Event
			_ = f.Parse(b, false, &ev) // the buffer grows
			if n := testing.AllocsPerRun(100, func() { _ = f.Parse(b, false, &ev) }); n != 0 {
				t.Errorf("%q: %v allocations", line, n)
			}
		}
	}
}

func BenchmarkCompiled(b *testing.B) {
	line := []byte(`203.0.113.10 - - [29/Nov/2026:16:51:36 -0330] "GET /blog/2024/03/some-page-title HTTP/1.1" 200 5316 "https://www.example.com/" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0" "198.51.100.4"`)
	for name, spec := range map[string]string{
		"nginx":  nginxMain,
		"apache": apacheCommon + ` "%{Referer}i" "%{User-Agent}i" "%{X-Forwarded-For}i"`,
		"hand":   "nginx",
	} {
		b.Run(name, func(b *testing.B) {
			f := mustNew(b, spec, Options{})
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
