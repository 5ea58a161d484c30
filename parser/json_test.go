package parser

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// testFields has a path of every kind.
func testFields() JSONFields {
	return JSONFields{
		Peer: "peer", Forward: "h.xff[*]", Time: "t", Request: "req", Method: "m", Target: "u", Proto: "p", Status: "st", Bytes: "n",
		Host: `a\.b.host`, Referer: "h.ref[0]", Agent: "h.ua[1]", User: `x\[0\]`,
	}
}

func mustJSON(t testing.TB, f JSONFields) Format {
	t.Helper()
	j, err := NewJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func showHost(ev *Event) string { return show(ev) + fmt.Sprintf(" host=%q", ev.Host) }

// sent returns the target without the escapes of the log.
func sent(ev *Event) string { return string(appendUnescaped(nil, ev.Target)) }

// In nginx's JSON the request's own method counts, not that of an error page.
func TestNginxJSONRequestFirst(t *testing.T) {
	f := mustPreset(t, "nginx-json", nil)
	for request, want := range map[string]string{"POST /sign-in HTTP/1.1": "POST /sign-in", "": "GET /err"} {
		var ev Event
		line := `{"remote_addr":"192.0.2.1","time_iso8601":"2026-03-05T10:00:01+01:00","request":"` + request + `","request_method":"GET","request_uri":"/err"}`
		if err := f.Parse([]byte(line), false, &ev); err != nil {
			t.Fatal(err)
		}
		if got := string(ev.Method) + " " + string(ev.Target); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// parsed returns what a format makes of a line.
func parsed(f Format, line string, cut bool) string {
	var ev Event
	if err := f.Parse([]byte(line), cut, &ev); err != nil {
		if ev.Peer.IsValid() {
			return err.Error() + " of " + ev.Peer.String()
		}
		return err.Error()
	}
	return showHost(&ev)
}

func TestJSON(t *testing.T) {
	const head = `{"peer":"192.0.2.1","t":1772701201`
	const at = `192.0.2.1 03-05T09:00:01 `
	const none = at + `"" "" "" 0 -1 ref="" ua="" user="" fwd="" partial=false host=""`
	tests := []struct{ name, line, want string }{
		{"everything", head + `,"m":"GET","u":"/a?b","p":"HTTP/1.1","st":200,"n":12,"a.b":{"host":"a.example"},` +
			`"h":{"xff":["198.51.100.1","198.51.100.2"],"ref":["r"],"ua":["first","second"]},"x[0]":"bob"}`,
			at + `"GET" "/a?b" "HTTP/1.1" 200 12 ref="r" ua="second" user="bob" fwd="198.51.100.1, 198.51.100.2" partial=false host="a.example"`},
		{"as little as can be", head + `}`, none},
		{"blanks everywhere", "  { \"peer\" :\t\"192.0.2.1\" , \"t\" : 1772701201 , \"z\" : [ 1 , { } , [ ] ] } \r", none},
		{"byte order mark", "\xEF\xBB\xBF" + head + `}`, none},
		{"hole of a truncated file", "\x00\x00" + head + `}`, none},
		{"request line", head + `,"req":"GET /a b HTTP/1.1"}`, at + `"GET" "/a b" "HTTP/1.1" 0 -1 ref="" ua="" user="" fwd="" partial=false host=""`},
		{"parts win over the request line", head + `,"m":"PUT","req":"GET /a HTTP/1.1","u":"/b","p":""}`,
			at + `"PUT" "/b" "HTTP/1.1" 0 -1 ref="" ua="" user="" fwd="" partial=false host=""`},
		{"nulls, dashes and empty strings", head + `,"m":null,"st":null,"n":"-","u":"-","x[0]":"","h":{"xff":[]}}`, none},
		{"null for an object on the way", head + `,"h":null,"a.b":[1]}`, none},
		{"number for an object on the way", head + `,"h":1.5e-3,"a.b":true}`, none},
		{"null for an array", head + `,"h":{"xff":null}}`, none},
		{"string for an array", head + `,"h":{"xff":"198.51.100.1"}}`, strings.Replace(none, `fwd=""`, `fwd="198.51.100.1"`, 1)},
		{"numbers as strings", `{"peer":"192.0.2.1","t":"1772701201","st":"404","n":"007"}`, strings.Replace(none, "0 -1", "404 7", 1)},
		{"peer with port", `{"peer":"192.0.2.1:8080","t":1772701201}`, none},
		{"IPv6 with port", `{"peer":"[2001:db8::9]:8080","t":1772701201}`, strings.Replace(none, "192.0.2.1", "2001:db8::9", 1)},
		{"IPv6 with zone and port", `{"peer":"[fe80::9%eth0]:8080","t":1772701201}`, strings.Replace(none, "192.0.2.1", "fe80::9", 1)},
		{"bare IPv6", `{"peer":"2001:db8::9:80","t":1772701201}`, strings.Replace(none, "192.0.2.1", "2001:db8::9:80", 1)},
		{"escaped key", `{"p\u0065er":"192.0.2.1","\u0074":1772701201}`, none},
		{"escaped peer", `{"peer":"192\u002e0.2.1","t":1772701201}`, none},

		{"not JSON", "192.0.2.1 - - nothing", "malformed JSON"},
		{"array outside", `[` + head + `}]`, "malformed JSON"},
		{"prefix", `web | ` + head + `}`, "malformed JSON"},
		{"garbage behind", head + `} x`, "malformed JSON of 192.0.2.1"},
		{"two on a line", head + `}` + head + `}`, "malformed JSON of 192.0.2.1"},
		{"comma at the end", head + `,}`, "malformed JSON of 192.0.2.1"},
		{"comma at the beginning", `{,"peer":"192.0.2.1","t":1}`, "malformed JSON"},
		{"comma at the end of an array", head + `,"z":[1,]}`, "malformed JSON of 192.0.2.1"},
		{"no colon", `{"peer" "192.0.2.1"}`, "malformed JSON"},
		{"no comma", `{"peer":"192.0.2.1" "t":1}`, "malformed JSON of 192.0.2.1"},
		{"bare key", `{peer:"192.0.2.1"}`, "malformed JSON"},
		{"single quotes", `{'peer':'192.0.2.1'}`, "malformed JSON"},
		{"crossed brackets", head + `,"z":[{]}}`, "malformed JSON of 192.0.2.1"},
		{"half a word", head + `,"z":tru}`, "malformed JSON of 192.0.2.1"},
		{"dash for a number", head + `,"z":-}`, "malformed JSON of 192.0.2.1"},
		{"leading zero", head + `,"z":01}`, "malformed JSON of 192.0.2.1"},
		{"point without digits", head + `,"z":1.}`, "malformed JSON of 192.0.2.1"},
		{"exponent without digits", head + `,"z":1e+}`, "malformed JSON of 192.0.2.1"},
		{"unknown escape", head + `,"u":"\q"}`, "malformed JSON of 192.0.2.1"},
		{"short \\u", head + `,"u":"\u12"}`, "malformed JSON of 192.0.2.1"},
		{"short \\x", head + `,"u":"\x1"}`, "malformed JSON of 192.0.2.1"},
		{"bad escape in a key", head + `,"\q":1}`, "malformed JSON of 192.0.2.1"},

		{"empty", "", "not a record"},
		{"only CR", "\r", "not a record"},
		{"only blanks", "  \t", "not a record"},
		{"NULs only", "\x00\x00", "not a record"},
		{"comment", "# fields", "not a record"},

		{"no peer", `{"t":1772701201}`, "malformed address"},
		{"null peer", `{"peer":null,"t":1772701201}`, "malformed address"},
		{"name as peer", `{"peer":"www.example.net","t":1772701201}`, "malformed address"},
		{"unix socket as peer", `{"peer":"@","t":1772701201}`, "malformed address"},
		{"number as peer", `{"peer":3221225985,"t":1772701201}`, "malformed address"},
		{"object as peer", `{"peer":{"peer":"192.0.2.1"},"t":1772701201}`, "malformed address"},
		{"array as peer", `{"peer":["192.0.2.1"],"t":1772701201}`, "malformed address"},
		{"two peers", `{"peer":"192.0.2.1, 198.51.100.1","t":1772701201}`, "malformed address"},
		{"IPv4 in brackets", `{"peer":"[192.0.2.1]:80","t":1772701201}`, "malformed address"},
		{"open bracket", `{"peer":"[2001:db8::9","t":1772701201}`, "malformed address"},
		{"port too big", `{"peer":"192.0.2.1:99999","t":1772701201}`, "malformed address"},
		{"no time", `{"peer":"192.0.2.1"}`, "malformed time of 192.0.2.1"},
		{"bad time", `{"peer":"192.0.2.1","t":"yesterday"}`, "malformed time of 192.0.2.1"},
		{"bad status", head + `,"st":2000}`, "malformed status of 192.0.2.1"},
		{"status with decimals", head + `,"st":200.0}`, "malformed status of 192.0.2.1"},
		{"bool as status", head + `,"st":true}`, "malformed status of 192.0.2.1"},
		{"negative bytes", head + `,"n":-5}`, "malformed bytes of 192.0.2.1"},
		{"huge bytes", head + `,"n":99999999999999999999999999}`, "malformed bytes of 192.0.2.1"},
		{"bytes with an exponent", head + `,"n":1e400}`, "malformed bytes of 192.0.2.1"},
		{"number as agent", head + `,"h":{"ua":["",5]}}`, "malformed agent of 192.0.2.1"},
		{"number as method", head + `,"m":1}`, "malformed method of 192.0.2.1"},
		{"number as header", head + `,"h":{"xff":["198.51.100.1",5]}}`, "malformed forwarding header of 192.0.2.1"},
		{"null in the header", head + `,"h":{"xff":[null]}}`, "malformed forwarding header of 192.0.2.1"},
		{"object as header", head + `,"h":{"xff":{}}}`, "malformed forwarding header of 192.0.2.1"},
	}
	f := mustJSON(t, testFields())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parsed(f, tt.line, false); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// What a client can write goes into strings, and some of it into keys of
// objects further in. None of it reaches another field.
func TestJSONHostile(t *testing.T) {
	const victim = "203.0.113.66"
	f := mustJSON(t, testFields())
	for name, value := range map[string]string{
		"quotes":                `\",\"peer\":\"` + victim + `\",\"t\":1,\"z\":\"`,
		"quotes in hex":         `\u0022,\u0022peer\u0022:\u0022` + victim + `\u0022}`,
		"quotes as nginx":       `\x22,\x22peer\x22:\x22` + victim + `\x22}`,
		"backslash at the end":  `\\`,
		"backslashes":           `\\\\\"\\`,
		"object":                `{'peer':'` + victim + `'}`,
		"closed and reopened":   `\"}{\"peer\":\"` + victim + `\"}`,
		"line feed and a line":  `\n{\"peer\":\"` + victim + `\"}`,
		"NUL":                   `\u0000`,
		"raw NUL and escape":    "\x00\x1b[31m",
		"invalid UTF-8":         "\xff\xfe\xc3(",
		"half a surrogate pair": `\ud800 \udc00 \ud800\ud800`,
		"brackets":              `}]}]}]`,
		"long":                  strings.Repeat(`\"`, 5000),
	} {
		for _, line := range []string{
			`{"peer":"192.0.2.1","t":1772701201,"u":"` + value + `","st":200}`,
			`{"u":"` + value + `","peer":"192.0.2.1","t":1772701201,"st":200}`,
			`{"` + value + `":"` + value + `","peer":"192.0.2.1","t":1772701201,"st":200}`,
			`{"h":{"peer":"` + victim + `","t":5,"` + value + `":["` + value + `"],"ua":["x","` + value + `"]},"peer":"192.0.2.1","t":1772701201,"st":200}`,
			`{"z":[{"peer":"` + victim + `","st":1}],"peer":"192.0.2.1","t":1772701201,"st":200,"z2":{"peer":"` + victim + `"}}`,
		} {
			var ev Event
			if err := f.Parse([]byte(line), false, &ev); err != nil {
				t.Errorf("%s: %v: %.200q", name, err, line)
				continue
			}
			if ev.Peer.String() != "192.0.2.1" || ev.Time != 1772701201e9 || ev.Status != 200 {
				t.Errorf("%s: %.200q gave %.200s", name, line, show(&ev))
			}
		}
	}
}

// A key on a path that comes twice proves that somebody got a quote past the
// server: no peer can be believed, whichever of them was first.
func TestJSONDuplicateKeys(t *testing.T) {
	f := mustJSON(t, testFields())
	for _, line := range []string{
		`{"peer":"192.0.2.1","t":1772701201,"ua":"x","peer":"203.0.113.66"}`,
		`{"u":"x","peer":"203.0.113.66","t":1,"z":"","peer":"192.0.2.1","t":1772701201}`,
		`{"peer":"192.0.2.1","t":1772701201,"t":1}`,
		`{"peer":"192.0.2.1","t":1772701201,"p\u0065er":"203.0.113.66"}`,
		`{"peer":"192.0.2.1","t":1772701201,"h":{"xff":["198.51.100.1"],"xff":["198.51.100.2"]}}`,
		`{"peer":"192.0.2.1","t":1772701201,"h":{},"h":{"xff":["198.51.100.2"]}}`,
		`{"peer":null,"peer":"192.0.2.1","t":1772701201}`,
	} {
		if got := parsed(f, line, false); got != "malformed JSON: key twice" {
			t.Errorf("%s\ngave %s", line, got)
		}
	}
	// The same key elsewhere, or one that no path has, is no duplicate.
	for _, line := range []string{
		`{"z":1,"z":2,"peer":"192.0.2.1","t":1772701201,"h":{"z":1,"z":2,"peer":"x"}}`,
		`{"peer":"192.0.2.1","t":1772701201}`,
	} {
		if got := parsed(f, line, false); !strings.HasPrefix(got, "192.0.2.1 03-05T09:00:01") {
			t.Errorf("%s\ngave %s", line, got)
		}
	}
}

func TestJSONNesting(t *testing.T) {
	f := mustJSON(t, testFields())
	nested := func(n int) string { // the outermost object is one more
		return `{"peer":"192.0.2.1","t":1772701201,"z":` + strings.Repeat(`[`, n) + strings.Repeat(`]`, n) + `}`
	}
	if got := parsed(f, nested(maxJSONDepth-1), false); !strings.HasPrefix(got, "192.0.2.1 ") {
		t.Errorf("deepest nesting: %s", got)
	}
	for _, line := range []string{nested(maxJSONDepth), nested(1 << 20), `{"peer":"192.0.2.1","t":1,"z":` + strings.Repeat(`{"a":`, 1<<20)} {
		if got := parsed(f, line, false); got != "malformed JSON: nested too deeply of 192.0.2.1" {
			t.Errorf("too deep: %s", got)
		}
	}
}

func TestJSONEscapes(t *testing.T) {
	f := mustJSON(t, testFields())
	for in, want := range map[string]string{
		`plain`:                   "plain",
		`\" \\ \/ \b\f\n\r\t`:     "\" \\ / \b\f\n\r\t",
		`\u0041\u00e9\u20AC`:      "Aé€",
		`\ud83d\ude00`:            "😀",
		`\ud83d`:                  "\ufffd",
		`\ude00\ud83d`:            "\ufffd\ufffd",
		`\ud83dx\ude00`:           "\ufffdx\ufffd",
		`\ud83d\u0041`:            "\ufffdA",
		`\ud83d\n`:                "\ufffd\n",
		`\u0000`:                  "\x00",
		`\x22\xC3\xa9\v`:          "\"é\v",
		"\xff raw \x01":           "\xff raw \x01",
		`\\u0041`:                 `\u0041`,
		`a\\`:                     `a\`,
		`\\\"`:                    `\"`,
		`é` + `\t` + "\xc3":       "é\t\xc3",
		strings.Repeat(`\\`, 999): strings.Repeat(`\`, 999),
	} {
		var ev Event
		line := `{"peer":"192.0.2.1","t":1772701201,"u":"` + in + `","x[0]":"\u0062ob","h":{"xff":["` + in + `","` + in + `"]}}`
		if err := f.Parse([]byte(line), false, &ev); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if sent(&ev) != want || string(ev.User) != "bob" || string(ev.Forward) != want+", "+want {
			t.Errorf("%s: target %q, user %q, forward %q, want %q", in, ev.Target, ev.User, ev.Forward, want)
		}
	}
}

// A line cut anywhere counts as soon as peer and time are complete, and no
// field holds half of what was logged.
func TestJSONCut(t *testing.T) {
	f := mustJSON(t, testFields())
	line := `{"peer":"192.0.2.1","t":1772701201.5,"st":404,"n":12,"z":[true,{"a":null}],"u":"/a\u0041","h":{"xff":["198.51.100.1","198.51.100.2"],"ua":["","ag"]}} `
	enough := strings.Index(line, `,"st"`)
	for n := 1; n < len(line); n++ {
		for _, cut := range []bool{true, false} {
			var ev Event
			err := f.Parse([]byte(line[:n]), cut, &ev)
			if n < enough {
				if err == nil {
					t.Errorf("cut at %d: accepted without peer and time: %s", n, line[:n])
				}
				continue
			}
			if n == enough { // the number may go on
				if err == nil {
					t.Errorf("cut at %d: half a time taken for a whole one", n)
				}
				continue
			}
			if err != nil {
				t.Errorf("cut at %d: %v", n, err)
				continue
			}
			whole := n >= len(line)-1
			if ev.Partial != (cut || !whole) {
				t.Errorf("cut at %d (%v): partial: %v", n, cut, ev.Partial)
			}
			if ev.Peer.String() != "192.0.2.1" || ev.Time != 1772701201.5e9 ||
				ev.Status != 0 && ev.Status != 404 || ev.Bytes != -1 && ev.Bytes != 12 ||
				ev.Target != nil && string(ev.Target) != "/aA" || ev.Agent != nil && string(ev.Agent) != "ag" ||
				ev.Forward != nil && string(ev.Forward) != "198.51.100.1, 198.51.100.2" {
				t.Errorf("cut at %d: %s", n, show(&ev))
			}
		}
	}
	late := `{"u":"/` + strings.Repeat("a", 100) + `","t":1772701201,"peer":"192.0.2.1"}`
	if got := parsed(f, late[:60], true); got != "malformed address" {
		t.Errorf("peer behind the cut: %s", got)
	}
}

func TestNewJSONRefuses(t *testing.T) {
	ok := JSONFields{Peer: "peer", Time: "t"}
	for _, tt := range []struct {
		name   string
		change func(*JSONFields)
		want   string
	}{
		{"no peer", func(f *JSONFields) { f.Peer = "" }, "JSON fields: no path for peer; name the key that holds the address of the connection"},
		{"no time", func(f *JSONFields) { f.Time = "" }, "JSON fields: no path for time"},
		{"time form", func(f *JSONFields) { f.TimeForm = "iso" },
			`JSON fields: no time form is called "iso"; there are rfc3339, local, clf, epoch, s, ms, us and ns`},
		{"same path", func(f *JSONFields) { f.User = "peer" }, `JSON fields: path "peer" for user: peer is read from there already`},
		{"same array", func(f *JSONFields) { f.Forward, f.User = "a[*]", "a" }, `JSON fields: path "a" for user: forward is read from there already`},
		{"through a value", func(f *JSONFields) { f.User = "peer.name" }, `JSON fields: path "peer.name" for user: peer is read from there already`},
		{"through another path", func(f *JSONFields) { f.Referer, f.User = "a.b", "a" }, `JSON fields: path "a" for user: another path leads through it`},
		{"element and all", func(f *JSONFields) { f.Referer, f.User = "a[0]", "a[*]" }, `JSON fields: path "a[*]" for user: another path leads through it`},
		{"empty key", func(f *JSONFields) { f.User = "a..b" }, `JSON fields: path "a..b" for user: empty key`},
		{"dot at the end", func(f *JSONFields) { f.User = "a." }, `JSON fields: path "a." for user: empty key`},
		{"dot at the beginning", func(f *JSONFields) { f.User = ".a" }, `JSON fields: path ".a" for user: empty key`},
		{"backslash at the end", func(f *JSONFields) { f.User = `a\` }, `JSON fields: path "a\\" for user: nothing behind the backslash`},
		{"open bracket", func(f *JSONFields) { f.User = "a[0" }, `JSON fields: path "a[0" for user: bracket not closed; to mean a key write \[`},
		{"bad index", func(f *JSONFields) { f.User = "a[-1]" }, `JSON fields: path "a[-1]" for user: "[-1]" is no index; to mean a key write \[`},
		{"key behind an index", func(f *JSONFields) { f.User = "a[0]b" }, `JSON fields: path "a[0]b" for user: a dot or a bracket must follow an index`},
		{"all in the middle", func(f *JSONFields) { f.User = "a[*].b" }, `JSON fields: path "a[*].b" for user: [*] must be at the end`},
		{"long", func(f *JSONFields) { f.User = strings.Repeat("a.", 16) + "a" },
			`JSON fields: path "` + strings.Repeat("a.", 16) + `a" for user: more than 16 steps`},
	} {
		f := ok
		tt.change(&f)
		_, err := NewJSON(f)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v\nwant %s", tt.name, err, tt.want)
		}
	}
}

// A value of a kind that a field can't have is named by the field.
func TestJSONWrongKinds(t *testing.T) {
	for field, line := range map[string]string{
		"forwarding header": `"h":{"xff":1}`, "request": `"req":1`, "method": `"m":{}`, "protocol": `"p":[]`, "status": `"st":[]`, "bytes": `"n":false`,
		"host": `"a.b":{"host":1}`, "referer": `"h":{"ref":[{}]}`, "agent": `"h":{"ua":[0,1]}`, "user": `"x[0]":1`,
	} {
		want := "malformed " + field + " of 192.0.2.1"
		if got := parsed(mustJSON(t, testFields()), `{"peer":"192.0.2.1","t":1772701201,`+line+`}`, false); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestJSONElements(t *testing.T) {
	f := mustJSON(t, JSONFields{Peer: "c[0].ip", Time: "c[0].at[1]", Status: "c[2]", User: "c[0].at[2][0]"})
	const want = `192.0.2.1 03-05T09:00:01 "" "" "" 404 -1 ref="" ua="" user="bob" fwd="" partial=false host=""`
	if got := parsed(f, `{"c":[{"at":[0,1772701201,["bob"]],"ip":"192.0.2.1"},{"ip":"203.0.113.66"},404,{}]}`, false); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJSONFieldsSet(t *testing.T) {
	f := mustJSON(t, testFields())
	if all := Fields(1<<12 - 1); f.Fields() != all || !f.Fields().Has(FieldForward) {
		t.Errorf("fields: %v", f.Fields())
	}
	f = mustJSON(t, JSONFields{Peer: "p", Time: "t"})
	if f.Fields() != FieldPeer|FieldTime || f.Fields().Has(FieldForward) {
		t.Errorf("fields: %v", f.Fields())
	}
}

func TestJSONAllocatesNothing(t *testing.T) {
	f := mustJSON(t, testFields())
	var ev Event
	for _, line := range []string{
		`{"peer":"2001:db8::9","t":"2026-03-05T10:00:01.25+01:00","u":"/a\u0041","m":"GET","st":200,"h":{"xff":["198.51.100.1","\u0041"],"ua":["a","\"b\""]}}`,
		`{"peer":"2001:db8::9","t":"05/Mar/2026:10:00:01 +0100","req":"GET / HTTP/1.1","p\u0065":1}`,
		`{"peer":"x"}`, `{"peer":"192.0.2.1","peer":"192.0.2.1"}`, `{"peer":"192.0.2.1","t":5,"st":"x"}`, `x`, `{"z":[[[[`,
		`{"peer":"192.0.2.1","t":1772701201,"u":"cut`, strings.Repeat(`{"a":[`, 100),
	} {
		b := []byte(line)
		_ = f.Parse(b, false, &ev) // the buffer grows
		if n := testing.AllocsPerRun(100, func() { _ = f.Parse(b, false, &ev) }); n != 0 {
			t.Errorf("%v allocations for %s", n, line)
		}
	}
}

// Errors are the package's, so that callers can count them by identity.
func TestJSONErrorsAreMalformed(t *testing.T) {
	f := mustJSON(t, testFields())
	for _, line := range []string{`x`, `{`, `{"z":[[`, `{"peer":1}`, `{"peer":"192.0.2.1","t":{}}`, `{"h":{"ua":[1,true]}}`} {
		var ev Event
		var bad *MalformedError
		if err := f.Parse([]byte(line), true, &ev); !errors.As(err, &bad) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	for name, line := range map[string]string{
		"nginx-json": `{"time_iso8601":"2026-11-29T16:51:36-03:30","remote_addr":"203.0.113.10","remote_user":"","request":"GET /blog/2024/03/some-page-title HTTP/1.1","status":"200","body_bytes_sent":"5316","host":"www.example.com","http_referer":"https://www.example.com/","http_user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0","http_x_forwarded_for":"198.51.100.4"}`,
		"caddy":      `{"level":"info","ts":1795983973.4293919,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"203.0.113.10","remote_port":"34179","client_ip":"203.0.113.10","proto":"HTTP/1.1","method":"GET","host":"www.example.com","uri":"/blog/2024/03/some-page-title","headers":{"User-Agent":["Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"],"Referer":["https://www.example.com/"],"X-Forwarded-For":["198.51.100.4"],"Accept":["*/*"]}},"bytes_read":0,"user_id":"","duration":0.00448595,"size":5316,"status":200,"resp_headers":{"Etag":["\"tpa63n3\""],"Content-Type":["text/html; charset=utf-8"],"Server":["Caddy"]}}`,
		"traefik":    `{"ClientAddr":"203.0.113.10:39490","ClientHost":"198.51.100.4","ClientPort":"39490","ClientUsername":"-","DownstreamContentSize":5316,"DownstreamStatus":200,"Duration":215563,"OriginContentSize":5316,"OriginDuration":204708,"OriginStatus":200,"Overhead":10855,"RequestAddr":"www.example.com","RequestContentSize":0,"RequestCount":113,"RequestHost":"www.example.com","RequestMethod":"GET","RequestPath":"/blog/2024/03/some-page-title","RequestPort":"-","RequestProtocol":"HTTP/1.1","RequestScheme":"https","RetryAttempts":0,"RouterName":"web@docker","ServiceAddr":"192.0.2.3:80","ServiceName":"web@docker","ServiceURL":"http://192.0.2.3:80","StartLocal":"2026-11-29T14:02:43.464763557Z","StartUTC":"2026-11-29T14:02:43.464763557Z","entryPointName":"web","level":"info","msg":"","request_Referer":"https://www.example.com/","request_User-Agent":"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0","time":"2026-11-29T14:02:43Z"}`,
	} {
		b.Run(name, func(b *testing.B) {
			f, err := NewPreset(name, nil)
			if err != nil {
				b.Fatal(err)
			}
			raw := []byte(line)
			var ev Event
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Parse(raw, false, &ev); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
