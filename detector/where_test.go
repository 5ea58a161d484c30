package detector

import (
	"testing"

	"github.com/tailban/tailban/parser"
)

// Servers write a version with and without ".0"; what isn't known of a line
// that was cut fits nothing, and nothing that is negated.
func TestProtocols(t *testing.T) {
	const unknown = ""
	for _, tt := range []struct {
		where  Where
		logged string
		cut    bool
		want   bool
	}{
		{Where{Match: Conditions{Protocols: []string{"HTTP/1.1", "HTTP/2.0"}}}, "HTTP/1.1", false, true},
		{Where{Match: Conditions{Protocols: []string{"HTTP/1.1", "HTTP/2.0"}}}, "HTTP/2.0", false, true},
		{Where{Match: Conditions{Protocols: []string{"HTTP/1.1", "HTTP/2.0"}}}, "HTTP/2", false, true},
		{Where{Match: Conditions{Protocols: []string{"HTTP/2"}}}, "HTTP/2.0", false, true},
		{Where{Match: Conditions{Protocols: []string{"HTTP/1.1", "HTTP/2.0"}}}, "HTTP/1.0", false, false},
		{Where{Match: Conditions{Protocols: []string{"HTTP/1.1", "HTTP/2.0"}}}, "HTTP/3.0", false, false},
		{Where{Match: Conditions{Protocols: []string{"HTTP/1.1", "HTTP/2.0"}}}, unknown, false, false},
		{Where{Not: Conditions{Protocols: []string{"HTTP/3.0"}}}, "HTTP/3.0", false, false},
		{Where{Not: Conditions{Protocols: []string{"HTTP/3.0"}}}, "HTTP/3", false, false},
		{Where{Not: Conditions{Protocols: []string{"HTTP/3.0"}}}, "HTTP/1.1", false, true},
		{Where{Not: Conditions{Protocols: []string{"HTTP/3.0"}}}, unknown, false, true},
		{Where{Not: Conditions{Protocols: []string{"HTTP/3.0"}}}, unknown, true, false},
		{Where{Not: Conditions{Protocols: []string{"HTTP/3.0"}}}, "HTTP/2.0", true, true},
	} {
		ev := event{Event: &parser.Event{Partial: tt.cut}}
		if tt.logged != unknown {
			ev.Proto = []byte(tt.logged)
		}
		m := newMatcher(&tt.where)
		if got := m.holds(&ev); got != tt.want {
			t.Errorf("%+v of %q, cut %v: %v, want %v", tt.where, tt.logged, tt.cut, got, tt.want)
		}
	}
}
