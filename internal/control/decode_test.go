package control

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeRequest(t *testing.T) {
	t.Parallel()
	n := netip.MustParsePrefix
	for _, test := range []struct {
		name, body string
		into       any
		want       any    // nil: refused,
		says       string // with this
	}{
		{"address", `{"target":"192.0.2.1"}`, &BanRequest{}, &BanRequest{Target: n("192.0.2.1/32")}, ""},
		{"network", ` { "target" : "192.0.2.0/24" , "for_seconds" : 3e1 } `, &BanRequest{}, &BanRequest{Target: n("192.0.2.0/24"), For: 30}, ""},
		{"mapped", `{"target":"::ffff:192.0.2.1"}`, &BanRequest{}, &BanRequest{Target: n("192.0.2.1/32")}, ""},
		{"mapped network", `{"target":"::ffff:192.0.2.0/120"}`, &BanRequest{}, &BanRequest{Target: n("192.0.2.0/24")}, ""},
		{"IPv6", `{"target":"2001:db8::/32","force":true,"jail":"j","reason":"\u00fc"}`, &BanRequest{}, &BanRequest{Target: n("2001:db8::/32"), Force: true, Jail: "j", Reason: "ü"}, ""},
		{"null is nothing", `{"jail":"j","reason":null}`, &HoldRequest{}, &HoldRequest{Jail: "j"}, ""},
		{"no network", `{"target":"","all":true}`, &UnbanRequest{}, &UnbanRequest{All: true}, ""},
		{"nothing", `{}`, &struct{}{}, &struct{}{}, ""},

		{"wider than IPv4", `{"target":"::ffff:0.0.0.0/95"}`, &BanRequest{}, nil, "wider than all of IPv4"},
		{"bits behind", `{"target":"192.0.2.1/24"}`, &BanRequest{}, nil, "192.0.2.0/24 meant, or 192.0.2.1?"},
		{"zone", `{"target":"fe80::1%eth0"}`, &BanRequest{}, nil, "target has to be an address or a network"},
		{"zone and mask", `{"target":"fe80::1%eth0/64"}`, &BanRequest{}, nil, "has to be an address or a network"},
		{"mask", `{"target":"192.0.2.1/33"}`, &BanRequest{}, nil, "has to be an address or a network"},
		{"number", `{"target":1}`, &BanRequest{}, nil, "has to be a text with an address or a network, not 1"},
		{"missing", `{"reason":"x"}`, &BanRequest{}, nil, "target is missing"},
		{"unknown", `{"target":"192.0.2.1","seconds":1}`, &BanRequest{}, nil, `unknown key "seconds" (known: target, for_seconds, jail, reason, force)`},
		{"unknown, none", `{"x":1}`, &struct{}{}, nil, "known: none"},
		{"case", `{"Target":"192.0.2.1"}`, &BanRequest{}, nil, `unknown key "Target"`},
		{"twice", `{"target":"192.0.2.1","target":"192.0.2.2"}`, &BanRequest{}, nil, "target is there twice"},
		{"text for number", `{"target":"192.0.2.1","for_seconds":"60"}`, &BanRequest{}, nil, `for_seconds has to be a number, not "60"`},
		{"text for bool", `{"target":"192.0.2.1","force":"yes"}`, &BanRequest{}, nil, "force has to be true or false"},
		{"negative", `{"target":"192.0.2.1","for_seconds":-1}`, &BanRequest{}, nil, "from 0 to"},
		{"for ever", `{"target":"192.0.2.1","for_seconds":1e300}`, &BanRequest{}, nil, "from 0 to"},
		{"infinite", `{"target":"192.0.2.1","for_seconds":1e999}`, &BanRequest{}, nil, "has to be a number"},
		{"reason", `{"target":"192.0.2.1","reason":"` + strings.Repeat("r", maxReason+1) + `"}`, &BanRequest{}, nil, "reason is longer"},
		{"list", `[]`, &BanRequest{}, nil, "has to be a JSON object"},
		{"more", `{"jail":"j"}{}`, &HoldRequest{}, nil, "after the JSON object"},
		{"open", `{"jail":"j"`, &HoldRequest{}, nil, "not JSON from about byte 11"},
		{"comma", `{"jail":"j",}`, &HoldRequest{}, nil, "not JSON"},
		{"empty", " \n", &HoldRequest{}, nil, "no body"},
		{"unban nothing", `{}`, &UnbanRequest{}, nil, "nothing is picked"},
		{"unban all of it", `{"all":true,"jail":"j"}`, &UnbanRequest{}, nil, "all and something else"},
		{"allow and end", `{"target":"192.0.2.1","end":true,"for_seconds":1}`, &AllowRequest{}, nil, "exclude each other"},
		{"allow nobody", `{"for_seconds":1}`, &AllowRequest{}, nil, "target is missing"},
		{"hold nothing", `{"resume":true}`, &HoldRequest{}, nil, "jail is missing"},
		{"resume for", `{"jail":"j","resume":true,"for_seconds":1}`, &HoldRequest{}, nil, "exclude each other"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := decodeRequest([]byte(test.body), test.into)
			switch {
			case test.want == nil:
				wantError(t, err, CodeBadRequest, test.says)
			case err != nil:
				t.Error(err)
			case !reflect.DeepEqual(test.into, test.want):
				t.Errorf("got %+v, want %+v", test.into, test.want)
			}
		})
	}
}

// What the decoder takes, encoding/json takes in its strict mode, and
// understands the same, apart from how a target may be written; and what the
// client sends for it is taken again, as the same.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		`{"target":"192.0.2.1"}`, `{"target":"::ffff:192.0.2.0/120","for_seconds":1.5,"jail":"j","reason":"\ud800","force":true}`,
		`{"all":true,"forgive_seconds":1}`, `{"target":"2001:db8::/32","end":true}`, `{"jail":"j","resume":true}`, `{"log":"l","line":"\u0000\\x22"}`,
		`{"jail":null}`, `{}`, `{"jail":"a","jail":"b"}`, `{"jail":[[[`, "{\"jail\":\"\xff\"}", `null`, `{"jail":"j"} {}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, empty := range []any{BanRequest{}, UnbanRequest{}, AllowRequest{}, HoldRequest{}, LineQuery{}, struct{}{}} {
			kind := reflect.TypeOf(empty)
			got := reflect.New(kind).Interface()
			if err := decodeRequest(body, got); err != nil {
				codeOf(t, err)
				continue
			}
			if !json.Valid(body) {
				t.Fatalf("%q is no JSON and taken as %+v", body, got)
			}
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			std := reflect.New(kind).Interface()
			if d.Decode(std) == nil {
				if target := reflect.ValueOf(got).Elem().FieldByName("Target"); target.IsValid() {
					reflect.ValueOf(std).Elem().FieldByName("Target").Set(target)
				}
				if !reflect.DeepEqual(std, got) {
					t.Errorf("%q is taken as %+v, and by encoding/json as %+v", body, got, std)
				}
			}
			sent, err := json.Marshal(got)
			check(t, err)
			again := reflect.New(kind).Interface()
			if err := decodeRequest(sent, again); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("%+v is sent as %s and taken as %+v, %v", got, sent, again, err)
			}
		}
	})
}

// The parameters of /v1/bans: what is taken is what the client would send.
func FuzzBansQuery(f *testing.F) {
	for _, s := range []string{"", "overlap=192.0.2.1", "overlap=2001:db8::/32&jail=a%26b&action=f&sort=left&limit=7", "limit=+1", "limit=0&limit=0", "jail=%zz", "a;b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := parseBansQuery(query)
		if err != nil {
			codeOf(t, err)
			return
		}
		if again, err := parseBansQuery(q.values().Encode()); err != nil || again != q {
			t.Errorf("%q is %+v, sent as %q, which is %+v, %v", query, q, q.values().Encode(), again, err)
		}
	})
}
