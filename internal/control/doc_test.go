package control

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every verb, key, code, parameter and word of the interface is in its
// document, under the verb it belongs to.
func TestDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/control.md")
	check(t, err)
	sections := map[string]string{}
	for _, s := range strings.Split(string(text), "\n## ") {
		title, body, _ := strings.Cut(s, "\n")
		sections[title] = body
	}
	line := documentedKeys(sections["GET /v1/bans"])
	for _, test := range []struct {
		title string
		types []any
		also  []string // keys that are explained with other verbs
	}{
		{"GET /v1/status", []any{Status{}}, nil},
		{"GET /v1/bans", []any{Bans{}}, nil},
		{"GET /v1/explain", []any{Explanation{}}, line},
		{"POST /v1/explain-line", []any{LineQuery{}, LineExplanation{}}, nil},
		{"GET /v1/events", []any{Event{}}, line},
		{"POST /v1/ban", []any{BanRequest{}, BanResult{}}, nil},
		{"POST /v1/unban", []any{UnbanRequest{}, UnbanResult{}}, nil},
		{"POST /v1/allow", []any{AllowRequest{}, AllowResult{}}, nil},
		{"POST /v1/hold", []any{HoldRequest{}, HoldResult{}}, nil},
		{"POST /v1/confirm", []any{ConfirmResult{}}, nil},
		{"POST /v1/accept-list", []any{AcceptListRequest{}, AcceptListResult{}}, nil},
		{"POST /v1/reload", []any{ReloadResult{}}, nil},
		{"Requests", []any{errorAnswer{}}, nil},
	} {
		documented := append(documentedKeys(sections[test.title]), test.also...)
		var keys []string
		for _, v := range test.types {
			keys = jsonKeys(keys, reflect.TypeOf(v))
		}
		if len(keys) == 0 {
			t.Errorf("%s has no keys", test.title)
		}
		for _, key := range keys {
			if !slices.Contains(documented, key) {
				t.Errorf("the section %q does not name the key %s", test.title, key)
			}
		}
	}
	for _, to := range routes() {
		body, socket := sections[to.method+" "+to.path], StatusSocket
		if to.changes {
			socket = ControlSocket
		}
		if !strings.Contains(body, "curl") || !strings.Contains(body, "/run/tailban/"+socket+" ") || !strings.Contains(body, "http://tailban"+to.path) {
			t.Errorf("%s %s has no example with %s", to.method, to.path, socket)
		}
	}
	words := Sorts()
	words = append(words, "overlap", "jail", "action", "sort", "limit")
	words = append(words, Banned, Observed, Allowed, Protected, Forgiven, Counted, Unseen, ModeEnforce, ModeObserve, ModeHeld, EventLost)
	words = append(words, CodeBadRequest, CodeNotFound, CodeRefused, CodeConfig, CodeBusy, CodeInternal, CodeDenied)
	for _, word := range words {
		if !strings.Contains(string(text), "`"+word+"`") {
			t.Errorf("the word %s is missing", word)
		}
	}
}

var inBackquotes = regexp.MustCompile("`([a-z_]+)`")

func documentedKeys(section string) (keys []string) {
	for _, m := range inBackquotes.FindAllStringSubmatch(section, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

// jsonKeys appends the keys of a type and of those inside it.
func jsonKeys(keys []string, t reflect.Type) []string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return jsonKeys(keys, t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				keys = append(keys, jsonKey(f))
				keys = jsonKeys(keys, f.Type)
			}
		}
	}
	return keys
}
