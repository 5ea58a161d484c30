package parser

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// fuzzPaths are those of testFields, taken apart by hand.
var fuzzPaths = [jsonFieldCount][]any{
	jsonPeer: {"peer"}, jsonForward: {"h", "xff", "*"}, jsonTimestamp: {"t"}, jsonRequest: {"req"}, jsonMethod: {"m"},
	jsonTarget: {"u"}, jsonProto: {"p"}, jsonStatus: {"st"}, jsonBytes: {"n"}, jsonHost: {"a.b", "host"},
	jsonReferer: {"h", "ref", 0}, jsonAgent: {"h", "ua", 1}, jsonUser: {"x[0]"},
}

// FuzzJSON takes encoding/json as the oracle: what it takes is never broken
// JSON to us, the values at the paths are the same, and what it refuses we
// take only for reasons that are stated.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"peer":"192.0.2.1","t":1772701201,"m":"GET","u":"/a\u0041","p":"HTTP/1.1","st":200,"n":"12","a.b":{"host":"a"},"h":{"xff":["1","2"],"ref":["r"],"ua":["f","s"]},"x[0]":"bob"}`,
		`{"peer":"192.0.2.1","t":"2026-03-05T10:00:01+01:00","peer":null,"h":{},"h":[]}`,
		`{ "peer" : "[2001:db8::9]:80" , "t" : 1e5 , "z" : [ true , false , null , -0.5E+3 , {} , [ ] ] }` + "\r",
		`{"peer":"192.0.2.1","t":1,"u":"\ud83d\ude00\ud83d\x22\v`,
		`{"peer":"192.0.2.1","t":1}{`, `[]`, `{"p\u0065er":"192.0.2.1"}`, "{\"peer\":\"\x00\xff\"}",
		`{"a":` + strings.Repeat("[", 70),
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	format := mustJSON(f, testFields()).(*jsonFormat)
	f.Fuzz(func(t *testing.T, line []byte, cut bool) { checkJSON(t, format, line, cut) })
}

func checkJSON(t interface {
	Helper()
	Fatalf(string, ...any)
}, format *jsonFormat, line []byte, cut bool) {
	t.Helper()
	if bytes.Contains(line, []byte(`""""`)) {
		return // Apache's empty user name: taken, and no JSON
	}
	var ev Event
	err := format.Parse(line, cut, &ev)
	var bad *MalformedError
	if err != nil && !errors.Is(err, ErrNotMine) && !errors.As(err, &bad) {
		t.Fatalf("%q: error of an unknown kind: %v", line, err)
	}
	text := bytes.TrimLeft(trimLine(line), " \t")
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	valid := json.Valid(text) && d.Decode(&object) == nil && object != nil
	if !valid {
		if err == nil && !ev.Partial && !cut && bytes.IndexFunc(text, func(r rune) bool { return r < ' ' || r == '\\' }) < 0 {
			t.Fatalf("%q accepted, which is no JSON", line)
		}
		return
	}
	if err == errJSON || ev.Partial != cut {
		t.Fatalf("%q refused or taken for cut, but is JSON: %v", line, err)
	}
	if err != nil || !utf8.Valid(text) {
		return // encoding/json replaces invalid UTF-8
	}
	for field, path := range fuzzPaths {
		if path == nil {
			continue
		}
		want, wantNumber := oracleValue(object, path)
		if got := format.scan.got[field]; string(got.text) != want || got.number != wantNumber {
			t.Fatalf("%q: %v is %q (number: %v), want %q", line, jsonField(field), got.text, got.number, want)
		}
	}
}

// oracleValue follows a path through what encoding/json decoded.
func oracleValue(v any, path []any) (text string, number bool) {
	for _, step := range path {
		switch step := step.(type) {
		case int:
			a, _ := v.([]any)
			if step >= len(a) {
				return "", false
			}
			v = a[step]
		case string:
			if a, ok := v.([]any); ok && step == "*" {
				all := make([]string, len(a))
				for i := range a {
					all[i], _ = a[i].(string)
				}
				return strings.Join(all, ", "), false
			}
			if step != "*" {
				o, _ := v.(map[string]any)
				v = o[step]
			}
		}
	}
	switch v := v.(type) {
	case string:
		return v, false
	case json.Number:
		return v.String(), true
	}
	return "", false
}

// Objects as a server would marshal them from whatever a client sent: all
// are taken, and every field is what went in.
func TestJSONRoundTrip(t *testing.T) {
	format := mustJSON(t, testFields()).(*jsonFormat)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\"\\{}[]:,\x00\n\u2028<")))).Filter(utf8.ValidString)
		target, agent, user := text.Draw(t, "target"), text.Draw(t, "agent"), text.Draw(t, "user")
		forward := rapid.SliceOfN(text, 0, 3).Draw(t, "forward")
		noise := rapid.MapOf(text, text).Draw(t, "noise")
		for _, own := range []string{"xff", "ref", "ua"} {
			delete(noise, own)
		}
		headers := map[string]any{"xff": forward, "ua": []string{"", agent}}
		for k, v := range noise {
			headers[k] = []string{v}
		}
		line, err := json.Marshal(map[string]any{"u": target, "h": headers, "x[0]": user, "peer": "192.0.2.1", "t": 1772701201, "noise": noise})
		if err != nil {
			t.Fatal(err)
		}
		var ev Event
		if err := format.Parse(line, false, &ev); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if ev.Peer.String() != "192.0.2.1" || ev.Time != 1772701201e9 {
			t.Fatalf("%s gave %s", line, show(&ev))
		}
		for _, f := range []struct {
			got  []byte
			want string
		}{{[]byte(sent(&ev)), target}, {ev.Agent, agent}, {ev.User, user}, {ev.Forward, strings.Join(forward, ", ")}} {
			if f.want == "-" {
				f.want = ""
			}
			if string(f.got) != f.want {
				t.Fatalf("%s gave %q, want %q", line, f.got, f.want)
			}
		}
		checkJSON(t, format, line, false)
	})
}
