package cloudflare

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tailban/tailban/actions"
	"github.com/tailban/tailban/internal/term"
)

// Kind is what an error of the API means for what to do next.
type Kind int

const (
	Temporary  Kind = iota // trying again later may help
	Busy                   // likewise: another write is under way, or there were too many requests
	BadToken               // the token is none, or not for this account
	Permission             // the token is good, and lacks a permission
	Missing                // what the request is about isn't there
	Invalid                // the request is wrong, and stays so
)

// Codes of errors in answers.
const (
	codeAuth      = 10000 // "Authentication error"
	codeBadAuth   = 9106  // "Authentication failed", of a token that can't be one
	codeBadHeader = 6003  // "Invalid request headers"
	codeBadForm   = 6111  // "Invalid format for Authorization header"
	codeNoAccess  = 9109  // "Invalid access token", or one for other addresses
	codeItem      = 10035 // "invalid value for ip at position 3"
	codeLimited   = 10040 // "you have been ratelimited"
)

// Error is an answer of the API that is no success, or none at all.
type Error struct {
	Step    string // what was being done
	Kind    Kind
	Status  int // of HTTP; 0: there was no answer
	Code    int // the first of the answer's; 0: it had none
	Message string
	Needs   string        // the permission that the token lacks, or may lack
	After   time.Duration // how long the API says to wait; 0: it doesn't
	Err     error         // of the network
}

// Error implements error. It never holds the token: what the API and the network
// say is cut, and the token taken out.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("cloudflare: ")
	if e.Step != "" {
		b.WriteString(e.Step + ": ")
	}
	switch e.Kind {
	case BadToken:
		b.WriteString("the token is not accepted (is it right, not expired, and for this account?)")
		if e.Needs != "" {
			b.WriteString(", or it lacks the permission " + e.Needs)
		}
	case Permission:
		b.WriteString("the token lacks the permission " + e.Needs)
	case Busy:
		b.WriteString("another write is under way, or too many requests were made")
	case Temporary, Missing, Invalid:
		b.WriteString("it failed")
	}
	switch {
	case e.Err != nil:
		b.WriteString(": " + e.Err.Error())
	case e.Code != 0:
		fmt.Fprintf(&b, " (HTTP %d, error %d: %s)", e.Status, e.Code, e.Message)
	case e.Message != "":
		fmt.Fprintf(&b, " (HTTP %d: %s)", e.Status, e.Message)
	default:
		fmt.Fprintf(&b, " (HTTP %d %s)", e.Status, http.StatusText(e.Status))
	}
	if e.After > 0 {
		fmt.Fprintf(&b, ", and said to wait for %v", e.After)
	}
	return b.String()
}

// Unwrap says whether trying again can help.
func (e *Error) Unwrap() (errs []error) {
	if e.Kind == BadToken || e.Kind == Permission || e.Kind == Invalid {
		errs = append(errs, actions.ErrPermanent)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// is reports whether an error is of a kind.
func is(err error, k Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == k
}

// maxMessage is how much of what the API says is passed on, in bytes.
const maxMessage = 300

// said makes what somebody else has written fit for a line of ours.
func said(text, token string) string {
	if token != "" {
		text = strings.ReplaceAll(text, token, "TOKEN")
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return term.Escape(text)
}
