package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/tailban/tailban/detector"
	"github.com/tailban/tailban/parser"
)

// warnRedirected is about conditions on what the server changes before it logs
// it.
func warnRedirected(doc *document, c *Config) {
	for _, j := range c.Jails {
		where := keyPath("jails", j.Name, "where")
		for _, l := range c.Logs {
			if !slices.Contains(j.Logs, l.Name) {
				continue
			}
			for _, x := range []struct {
				at path
				c  *detector.Conditions
			}{{where, &j.Where.Match}, {where.key("not"), &j.Where.Not}} {
				if len(x.c.Methods) > 0 && l.traits.Redirected.Has(parser.FieldMethod) {
					doc.warn(x.at.key("method"), "log %q has the method as it is after internal redirects: error_page and ErrorDocument "+
						"make it GET, so a POST that fails isn't seen as one: log the request ($request, %%r or %%<m)", l.Name)
				}
				if len(x.c.Paths) > 0 && l.traits.Redirected.Has(parser.FieldPath) {
					doc.warn(x.at.key("path"), "log %q has the path as it is after internal redirects: with try_files, index or "+
						"error_page it is that of the page served: log the request ($request) or $request_uri", l.Name)
				}
			}
		}
	}
}

// warnPaths is about patterns that no path can match, as paths are decoded and
// resolved before they are compared.
func warnPaths(doc *document, c *Config) {
	check := func(at path, patterns []detector.PathPattern) {
		for i, p := range patterns {
			s := p.String()
			switch {
			case strings.HasPrefix(s, "~"):
			case hasUnresolved(s):
				doc.warn(at.elem(i), "%q never matches: //, /./ and /../ are resolved before paths are compared", s)
			case hasEncoded(s):
				doc.warn(at.elem(i), "%q hardly matches: %%XX is decoded before paths are compared, so write the character itself", s)
			}
		}
	}
	for _, j := range c.Jails {
		where := keyPath("jails", j.Name, "where")
		check(where.key("path"), j.Where.Match.Paths)
		check(where.key("not").key("path"), j.Where.Not.Paths)
	}
}

func hasUnresolved(p string) bool {
	p += "/" // the last segment counts as well
	return strings.Contains(p[:len(p)-1], "//") || strings.Contains(p, "/./") || strings.Contains(p, "/../")
}

// hasEncoded reports whether p has a percent-encoded character.
func hasEncoded(p string) bool {
	decoded, err := url.PathUnescape(p)
	return err == nil && decoded != p
}

// warnExcluded is about jails of which where.not excludes all that where
// includes.
func warnExcluded(doc *document, c *Config) {
	for i := range c.Jails {
		j := &c.Jails[i]
		yes, no := &j.Where.Match, &j.Where.Not
		for _, x := range []struct {
			key string
			all bool
		}{
			{"method", len(yes.Methods) > 0 && within(yes.Methods, no.Methods, func(a, b string) bool { return a == b })},
			{"path", len(yes.Paths) > 0 && within(yes.Paths, no.Paths, coversPath)},
			{"status", len(yes.Status) > 0 && within(yes.Status, no.Status, func(a, b detector.StatusRange) bool {
				return b.From <= a.From && a.To <= b.To
			})},
			{"agent", len(yes.Agents) > 0 && within(yes.Agents, no.Agents, func(a, b string) bool {
				return strings.Contains(strings.ToLower(a), strings.ToLower(b))
			})},
			{"protocol", len(yes.Protocols) > 0 && within(yes.Protocols, no.Protocols, func(a, b string) bool {
				return detector.HasProtocol([]string{b}, []byte(a))
			})},
			{"false_crawler", yes.FalseCrawler && no.FalseCrawler},
		} {
			if x.all {
				doc.warn(keyPath("jails", j.Name, "where", "not", x.key), "excludes all that where.%s includes: the jail never counts anything", x.key)
			}
		}
	}
}

// within reports whether each of yes is covered by one of no.
func within[T any](yes, no []T, covered func(yes, no T) bool) bool {
	return !slices.ContainsFunc(yes, func(a T) bool {
		return !slices.ContainsFunc(no, func(b T) bool { return covered(a, b) })
	})
}

// coversPath reports whether all that a pattern matches is matched by another,
// as far as that is plain.
func coversPath(yes, no detector.PathPattern) bool {
	a, b := yes.String(), no.String()
	if a == b {
		return true
	}
	prefix, isPrefix := strings.CutSuffix(b, "*")
	return !strings.HasPrefix(a, "~") && !strings.HasPrefix(b, "~") && isPrefix && strings.HasPrefix(a, prefix)
}
