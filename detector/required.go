package detector

import (
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// maxRequired is how many texts may stand for an expression.
const maxRequired = 32

// required returns texts of which one at least, in whatever case, occurs in
// every text of ASCII characters alone that a regular expression matches. None
// if no such texts are found.
func required(expr string) []string {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil // cannot be: it was compiled before
	}
	return requiredOf(re.Simplify())
}

func requiredOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		text := string(re.Rune)
		if re.Flags&syntax.FoldCase != 0 && strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) {
			return nil // "K" of Kelvin matches "k"
		}
		return []string{strings.ToLower(text)}
	case syntax.OpCapture, syntax.OpPlus:
		return requiredOf(re.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if texts := requiredOf(sub); shortest(texts) > shortest(best) {
				best = texts
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			texts := requiredOf(sub)
			if len(texts) == 0 || len(all)+len(texts) > maxRequired {
				return nil
			}
			all = append(all, texts...)
		}
		return all
	}
	return nil // nothing, or any of many characters
}

// shortest returns the length of the shortest text: the longer that is, the
// rarer are false hits. 0 if there are none.
func shortest(texts []string) int {
	n := 0
	for i, t := range texts {
		if i == 0 || len(t) < n {
			n = len(t)
		}
	}
	return n
}
