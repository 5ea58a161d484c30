package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// FuzzParse checks that a document gives either a complete configuration or
// problems, and that problems stand on lines that exist.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", base, everything, enforced + jail + want, "[[jails]]\n[[jails.a]]", "jails.a.b.c = 1", "a = \"\\", "[jails.web]\nwhere = [{}]",
		"allow = [[1], {a=1}, 1979-05-27]", "logs = { a = { files = [] } }", "[actions.a]\nports = [[]]",
		base + "override = [{ from = \"203.0.113.0/24\", limit = 5 }]\n[[jails.web.override]]", "[deny]\nfrom = [\"file:/dev/null\", \"a.b\"]\nban = [\"1h\", \"6h\"]",
	} {
		f.Add(s, "TAILBAN_LIMIT_WEB=1")
	}
	f.Fuzz(func(t *testing.T, doc, variable string) {
		c, err := Parse("f", []byte(doc), []string{variable})
		if err == nil {
			checkComplete(t, c)
			return
		}
		var ps Problems
		if !errors.As(err, &ps) || len(ps) == 0 || c != nil {
			t.Fatalf("%v, %v; want problems", c, err)
		}
		last := 0
		for _, p := range ps {
			if p.Msg == "" || strings.Contains(p.String(), "%!") {
				t.Errorf("unreadable: %#v", p)
			}
			if p.File != "" && p.File != "f" {
				continue // a file of addresses that the document names
			}
			if p.Line < 0 || p.Line > 1+strings.Count(doc, "\n") || p.File == "" && p.Line != 0 {
				t.Errorf("no such line: %#v", p)
			}
			if p.File != "" && p.Line < last {
				t.Errorf("out of order: %v", ps)
			}
			last = p.Line
		}
	})
}

func checkComplete(t *testing.T, c *Config) {
	t.Helper()
	if len(c.Logs) == 0 || len(c.Jails) == 0 || len(c.Actions) == 0 || c.MaxMemory <= 0 || c.MaxBans <= 0 || c.StateDir == "" {
		t.Errorf("incomplete: %+v", c)
	}
	for _, j := range c.Jails {
		if j.Name == "" || len(j.Logs) == 0 || j.Limit < 0 || j.Window <= 0 || len(j.Ban) == 0 || !slices.IsSorted(j.Ban) || j.Ban[0] <= 0 || j.Remember <= 0 {
			t.Errorf("incomplete jail: %+v", j)
		}
	}
	for _, l := range c.Logs {
		if l.Name == "" || len(l.Files) == 0 || l.Format == "" || l.MaxLine <= 0 {
			t.Errorf("incomplete log: %+v", l)
		}
	}
	all := append(c.TrustedProxies, c.Allow...)
	if c.Deny != nil {
		all = append(all, c.Deny.From...)
	}
	for _, j := range c.Jails {
		for _, o := range j.Overrides {
			if all = append(all, o.From); o.From.Addr().Is6() && o.From.Bits() > 64 || o.Limit < 0 {
				t.Errorf("bad override: %+v", o)
			}
		}
	}
	for _, p := range all {
		if !p.IsValid() || p != p.Masked() || p.Addr().Is4In6() {
			t.Errorf("bad range: %v", p)
		}
	}
}
