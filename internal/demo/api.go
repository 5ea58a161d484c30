package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	fake "github.com/tailban/tailban/internal/fakecloudflare"
)

// tell says in a line what a part of the log of an API was: "GET lists, POST rule 504,
// 3 × GET operation".
func tell(log []fake.Request) string {
	if len(log) == 0 {
		return "no request"
	}
	var parts []string
	for i := 0; i < len(log); {
		text, n := name(log[i]), 1
		for i+n < len(log) && name(log[i+n]) == text {
			n++
		}
		if i += n; n > 1 {
			text = fmt.Sprintf("%d × %s", n, text)
		}
		parts = append(parts, text)
	}
	if len(log) == 1 {
		return "1 request: " + parts[0]
	}
	return fmt.Sprintf("%d requests: %s", len(log), strings.Join(parts, ", "))
}

var idInPath = regexp.MustCompile(`/[0-9a-f]{32}`)

// name is what a request is for, and its status if it was none of success.
func name(r fake.Request) string {
	path := idInPath.ReplaceAllString(strings.TrimPrefix(r.Path, "/client/v4"), "/ID")
	what := path
	switch path {
	case "/accounts/ID/rules/lists":
		what = "lists"
	case "/accounts/ID/rules/lists/ID":
		what = "list"
	case "/accounts/ID/rules/lists/ID/items":
		what = "items"
	case "/accounts/ID/rules/lists/bulk_operations/ID":
		what = "operation"
	case "/zones/ID/rulesets/phases/http_request_firewall_custom/entrypoint":
		what = "rules"
	case "/zones/ID/rulesets/ID/rules", "/zones/ID/rulesets/ID/rules/ID":
		what = "rule"
	}
	text := r.Method + " " + what
	if r.ItemChanges > 0 {
		text += fmt.Sprintf(" (%d)", r.ItemChanges)
	}
	if r.Status < http.StatusOK || r.Status >= http.StatusMultipleChoices {
		text += fmt.Sprintf(" %d", r.Status)
	}
	return text
}
