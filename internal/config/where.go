package config

import (
	"strconv"
	"strings"

	"github.com/tailban/tailban/detector"
)

// readWhere reads the conditions of a jail.
func readWhere(s *section) detector.Where {
	w := detector.Where{Match: readConditions(s)}
	if not, ok := s.sub("not"); ok {
		w.Not = readConditions(not)
		not.finish()
		if len(not.table) == 0 {
			s.doc.bad(not.path, "must not be empty")
		}
	}
	s.finish()
	return w
}

func readConditions(s *section) detector.Conditions {
	var c detector.Conditions
	if n, ok := s.get("method"); ok {
		c.Methods = n.nonEmptyTexts(node.checkMethod)
	}
	if n, ok := s.get("path"); ok {
		n.nonEmptyTexts(func(item node, text string) bool {
			p, err := detector.ParsePathPattern(text)
			if err != nil {
				item.bad("%v", err)
				return false
			}
			c.Paths = append(c.Paths, p)
			return true
		})
	}
	if n, ok := s.get("status"); ok {
		c.Status = n.statuses()
	}
	if n, ok := s.get("agent"); ok {
		c.Agents = n.nonEmptyTexts(anyText)
	}
	if n, ok := s.get("protocol"); ok {
		c.Protocols = n.nonEmptyTexts(node.checkProtocol)
	}
	if n, ok := s.get("false_crawler"); ok {
		yes, ok := n.flag()
		if ok && !yes {
			n.bad("must be true, or left out; not = { false_crawler = true } leaves them out of what counts")
		}
		c.FalseCrawler = yes
	}
	return c
}

// checkProtocol accepts what servers log: HTTP/1.1, HTTP/2.0, HTTP/2.
func (n node) checkProtocol(s string) bool {
	version, ok := strings.CutPrefix(s, "HTTP/")
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	if ok && (len(version) == 1 || len(version) == 3 && version[1] == '.' && digit(version[2])) && digit(version[0]) {
		return true
	}
	n.bad(`must be a protocol like "HTTP/1.1", "HTTP/2.0" or "HTTP/3.0"`)
	return false
}

// checkMethod accepts tokens without lower-case letters. Methods are compared
// with regard to case (RFC 9110, section 9.1), and none in use has any.
func (n node) checkMethod(s string) bool {
	if upper := strings.ToUpper(s); upper != s {
		n.bad("is compared with regard to case, is %q meant?", upper)
		return false
	}
	if !isBareKey(s) {
		n.bad(`must be a method like "POST"`)
		return false
	}
	return true
}

// statuses reads codes (404), classes ("4xx") and ranges ("500-599").
func (n node) statuses() []detector.StatusRange {
	var out []detector.StatusRange
	items := n.items()
	if len(items) == 0 {
		n.bad("must not be empty")
	}
	once := unique{}
	for _, item := range items {
		text, isText := item.v.(string)
		if code, ok := item.v.(int64); ok {
			text, isText = strconv.FormatInt(code, 10), true
		}
		if !isText {
			text = "" // the parser knows what to say
		}
		r, err := detector.ParseStatus(text)
		if err != nil {
			item.bad("%v", err)
		} else if once.first(item, r.String()) {
			out = append(out, r)
		}
	}
	return out
}
