package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/tailban/tailban/parser"
)

// maxFor is more than any ban lasts, and fits a time.Duration.
const maxFor = 10 * 365 * 24 * 3600

func badRequest(message, hint string) *Error {
	return &Error{Code: CodeBadRequest, Message: message, Hint: hint}
}

// readRequest reads the body of a request into a struct of scalars.
func readRequest(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &tooBig):
		return withStatus{http.StatusRequestEntityTooLarge, badRequest(fmt.Sprintf("the request is longer than %d bytes", maxBody), "")}
	case errors.As(err, &slow) && slow.Timeout():
		return withStatus{http.StatusRequestTimeout, badRequest("the request did not arrive in time", "")}
	case err != nil:
		return badRequest("the request did not arrive whole: "+err.Error(), "")
	}
	return decodeRequest(body, into)
}

// decodeRequest reads a JSON object into a struct of scalars. It is strict:
// each key is known, written like that, and there once. What is checked is
// what can be told without knowing the daemon's state.
func decodeRequest(body []byte, into any) error {
	if err := decodeObject(body, reflect.ValueOf(into).Elem()); err != nil {
		return err
	}
	if c, ok := into.(interface{ check() *Error }); ok {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

func decodeObject(body []byte, into reflect.Value) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if len(bytes.TrimSpace(body)) == 0 {
		return badRequest("the request has no body", "it has to be a JSON object; {} is one")
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return badRequest("the request has to be a JSON object", "")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return notJSON(d)
		}
		key, _ := t.(string)
		field, ok := fieldOf(into, key)
		if !ok {
			return badRequest("unknown key "+strconv.Quote(cut(key)), "known: "+strings.Join(keysOf(into.Type()), ", "))
		}
		if seen[key] {
			return badRequest("the key "+key+" is there twice", "")
		}
		seen[key] = true
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return notJSON(d)
		}
		if err := decodeScalar(raw, field); err != nil {
			return badRequest("the key "+key+" "+err.Error(), "")
		}
	}
	if _, err := d.Token(); err != nil {
		return notJSON(d)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("there is something after the JSON object", "")
	}
	return nil
}

func notJSON(d *json.Decoder) *Error {
	return badRequest(fmt.Sprintf("the request is not JSON from about byte %d on", d.InputOffset()), "")
}

// decodeScalar reads one value. null is no value at all.
func decodeScalar(raw json.RawMessage, field reflect.Value) error {
	if string(raw) == "null" {
		return nil
	}
	switch to := field.Addr().Interface().(type) {
	case *string:
		return decodeAs(raw, to, "a text")
	case *bool:
		return decodeAs(raw, to, "true or false")
	case *float64:
		return decodeAs(raw, to, "a number")
	case *netip.Prefix:
		var s string
		err := decodeAs(raw, &s, "a text with an address or a network")
		if err == nil && s != "" { // "" is how no network is written
			*to, err = parseTarget(s)
		}
		return err
	default:
		return fmt.Errorf("is a %s, which no request has", field.Type())
	}
}

func decodeAs[T any](raw json.RawMessage, to *T, what string) error {
	if json.Unmarshal(raw, to) != nil {
		return fmt.Errorf("has to be %s, not %s", what, cut(string(raw)))
	}
	return nil
}

// fieldOf is the field of a struct that a JSON key names, exactly.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if jsonKey(v.Type().Field(i)) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func keysOf(t reflect.Type) []string {
	keys := []string{}
	for i := range t.NumField() {
		keys = append(keys, jsonKey(t.Field(i)))
	}
	if len(keys) == 0 {
		keys = append(keys, "none")
	}
	return keys
}

func jsonKey(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return key
}

// parseTarget reads an address or a network, unmapped. Its error is the rest
// of a sentence about it.
func parseTarget(s string) (netip.Prefix, error) {
	p, ok := parser.ParsePrefix(s)
	switch {
	case !ok:
		return netip.Prefix{}, fmt.Errorf("has to be an address or a network, not %q", cut(s))
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("is %s, which is wider than all of IPv4", p)
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits set behind the mask: is %s meant, or %s?", p.Masked(), p.Addr())
	}
	return p, nil
}

func checkFor(seconds float64) *Error {
	if seconds < 0 || seconds > maxFor || math.IsNaN(seconds) {
		return badRequest(fmt.Sprintf("the length of time is %v seconds: it has to be from 0 to %d", seconds, maxFor), "")
	}
	return nil
}

func checkReason(reason string) *Error {
	if len(reason) > maxReason {
		return badRequest(fmt.Sprintf("the reason is longer than %d bytes", maxReason), "")
	}
	return nil
}

// first returns the first error that is one.
func first(errs ...*Error) *Error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func when(bad bool, message, hint string) *Error {
	if bad {
		return badRequest(message, hint)
	}
	return nil
}

func (q *BanRequest) check() *Error {
	return first(
		when(!q.Target.IsValid(), "the key target is missing", "an address or a network"),
		checkFor(q.For), checkReason(q.Reason),
	)
}

func (q *UnbanRequest) check() *Error {
	const one = "give target, jail, both of them, or all"
	return first(
		when(!q.Target.IsValid() && q.Jail == "" && !q.All, "nothing is picked", one),
		when(q.All && (q.Target.IsValid() || q.Jail != ""), "all and something else are picked", one),
		checkFor(q.Forgive), checkReason(q.Reason),
	)
}

func (q *AllowRequest) check() *Error {
	return first(
		when(!q.Target.IsValid(), "the key target is missing", "an address or a network"),
		when(q.End && q.For != 0, "end and for_seconds exclude each other", ""),
		checkFor(q.For), checkReason(q.Reason),
	)
}

func (q *HoldRequest) check() *Error {
	return first(
		when(q.Jail == "", "the key jail is missing", ""),
		when(q.Resume && q.For != 0, "resume and for_seconds exclude each other", ""),
		checkFor(q.For), checkReason(q.Reason),
	)
}

func (q *AcceptListRequest) check() *Error {
	return first(when(q.Name == "", "the key name is missing", "the name of a provider"), checkReason(q.Reason))
}
