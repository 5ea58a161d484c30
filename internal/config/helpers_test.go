package config

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tailban/tailban/detector"
)

// accept parses a document that has no problems.
func accept(t *testing.T, doc string, env ...string) *Config {
	t.Helper()
	c, err := Parse("jails.toml", []byte(doc), env)
	if err != nil {
		t.Fatalf("problems of\n%s\n%v", doc, err)
	}
	return c
}

func diffConfig(want, got *Config) string {
	return cmp.Diff(want, got,
		cmpopts.IgnoreUnexported(Config{}, Log{}),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmpopts.EquateComparable(netip.AddrPort{}),
		cmp.Comparer(func(a, b detector.PathPattern) bool { return a.String() == b.String() }))
}

func ladder(steps ...time.Duration) []time.Duration { return steps }

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func patterns(t *testing.T, texts ...string) []detector.PathPattern {
	t.Helper()
	var out []detector.PathPattern
	for _, s := range texts {
		p, err := detector.ParsePathPattern(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}
