package parser

import "strings"

// parseApacheDirective reads `LogFormat "…" nick` from behind its first word.
func parseApacheDirective(spec string, from int) (*template, error) {
	for from < len(spec) && isSpace(spec[from]) {
		from++
	}
	if from == len(spec) {
		return nil, &SpecError{Offset: from, Msg: "LogFormat without a format", Hint: `write LogFormat "…" name`}
	}
	if quote := spec[from]; quote != '"' && quote != '\'' {
		return nil, &SpecError{Offset: from, Msg: "LogFormat without quotes around its format", Hint: `write LogFormat "…" name`}
	}
	return parseApacheQuoted(spec, from)
}

// parseApacheQuoted reads the quoted format at spec[from:], perhaps with a name
// behind.
func parseApacheQuoted(spec string, from int) (*template, error) {
	m, quote, start := new(mapped), spec[from], from
	for i := from + 1; i < len(spec); i++ {
		c := spec[i]
		switch {
		case c == '\\' && strings.HasPrefix(spec[i+1:], "\n"): // a continued line
			i++
		case c == '\\' && strings.HasPrefix(spec[i+1:], "\r\n"):
			i += 2
		case c == '\\' && i+1 < len(spec) && (spec[i+1] == quote || spec[i+1] == '\\'):
			i++
			m.add(spec[i], i-1)
		case c == quote:
			if behind := strings.Fields(spec[i+1:]); len(behind) > 1 {
				return nil, &SpecError{Offset: i + 1 + secondWord(spec[i+1:]), Text: behind[1], Msg: "more than a name behind the format", Hint: "give one LogFormat only"}
			}
			return parseApache(m, len(spec))
		default:
			m.add(c, i)
		}
	}
	return nil, &SpecError{Offset: start, Text: string(quote), Msg: "this quote is never closed"}
}

// secondWord returns where the second word of s begins.
func secondWord(s string) int {
	first := strings.Fields(s)[0]
	from := strings.Index(s, first) + len(first)
	return len(s) - len(strings.TrimLeft(s[from:], " \t\r\n"))
}

// apacheItem is a directive taken apart: %[modifiers][{arg}]letter.
type apacheItem struct {
	mods   string // "<" the request as sent, ">" the page served, "!400,501" for some answers only
	arg    string
	letter string // one letter, or "^ti", "^to", "^FB"
	argAt  int    // where arg begins in the text
}

// parseApache finds the directives in a format.
func parseApache(m *mapped, size int) (*template, error) {
	var b templateBuilder
	for i := 0; i < len(m.text); {
		c := m.text[i]
		switch {
		case c == '%' && i+1 < len(m.text) && m.text[i+1] == '%':
			b.literal('%')
			i += 2
		case c == '%':
			item, end, err := apacheDirective(m, i)
			if err != nil {
				return nil, err
			}
			v, err := apacheVariable(m, item, i, end)
			if err != nil {
				return nil, err
			}
			v.some = strings.ContainsAny(item.mods, "0123456789")
			v.text, v.offset = string(m.text[i:end]), m.offset(i)
			if err := b.variable(v); err != nil {
				return nil, err
			}
			i = end
		case c == '\\' && i+1 < len(m.text):
			j := strings.IndexByte(`"\trn`, m.text[i+1])
			if j < 0 {
				b.literal(c)
				i++
				continue
			}
			if m.text[i+1] == 'n' {
				return nil, m.fail(i, i+2, "a line feed: a record must be one line", "")
			}
			b.literal("\"\\\t\r\n"[j])
			i += 2
		default:
			b.literal(c)
			i++
		}
	}
	return b.done(m, size)
}

// apacheDirective takes the directive at m.text[start:] apart and returns
// where it ends.
func apacheDirective(m *mapped, start int) (item apacheItem, end int, err error) {
	for i := start + 1; i < len(m.text); i++ {
		switch c := m.text[i]; {
		case c == '{':
			n := strings.IndexByte(string(m.text[i:]), '}')
			if n < 0 {
				return item, 0, m.fail(start, len(m.text), "this brace is never closed", "")
			}
			item.arg, item.argAt = string(m.text[i+1:i+n]), i+1
			i += n
		case '0' <= c && c <= '9' || c == ',' || c == '!' || c == '<' || c == '>':
			item.mods += string(c)
		case c == '^' && i+2 < len(m.text):
			item.letter = string(m.text[i : i+3])
			return item, i + 3, nil
		default:
			item.letter = string(c)
			return item, i + 1, nil
		}
	}
	return item, 0, m.fail(start, len(m.text), "a percent sign without a directive", "write %% for a plain %")
}

// apacheVariable returns what is known of a directive, m.text[start:end].
func apacheVariable(m *mapped, item apacheItem, start, end int) (*variable, error) {
	text := &variable{class: apacheText(), client: true}
	number := &variable{word: true, class: numberClass()}
	switch item.letter {
	case "a", "h":
		return apacheAddress(item), nil
	case "A":
		return &variable{word: true, class: addressClass()}, nil
	case "l": // mod_ident reads a word
		text.word, text.class.set = true, text.class.set.without(" ")
	case "u":
		text.role, text.emptyQuotes = roleUser, true
	case "t":
		form, err := apacheTime(m, item)
		if err != nil {
			return nil, err
		}
		return timeVariable(form), nil
	case "r":
		text.role = roleRequest
	case "m": // an ErrorDocument of the server's own is asked for with GET
		text.redirected = !strings.Contains(item.mods, "<")
		text.role, text.word, text.class.set = roleMethod, true, text.class.set.without(" ")
	case "U":
		text.role, text.target, text.decoded = roleTarget, true, true
		text.redirected = strings.Contains(item.mods, ">")
	case "q":
		text.target = true
	case "H":
		return &variable{role: roleProto, word: true, class: protocolClass()}, nil
	case "s":
		number.role = roleStatus
		return number, nil
	case "b", "B":
		number.role, number.rank = roleBytes, 2
		return number, nil
	case "O":
		number.role, number.rank = roleBytes, 1
		return number, nil
	case "I", "S", "D", "T", "k", "p", "P", "^FB":
		return number, nil
	case "X":
		number.class.set = number.class.set.and("X+")
		return number, nil
	case "v": // ServerName, from the configuration
		return &variable{role: roleHost, word: true, class: wordClass()}, nil
	case "V":
		text.role = roleHost
	case "i":
		text.setHeader(strings.ReplaceAll(strings.ToLower(item.arg), "-", "_"))
	case "x", "c":
		// httpd before 2.4.64 does not escape these (CVE-2024-47252), and some
		// of them hold what the client sent.
		switch item.arg {
		case "SSL_PROTOCOL", "SSL_CIPHER", "SSL_CIPHER_USEKEYSIZE", "SSL_CIPHER_ALGKEYSIZE", "SSL_SESSION_RESUMED",
			"version", "cipher", "errcode": // of the server's own choosing
			return &variable{word: true, class: wordClass()}, nil
		}
		return nil, m.fail(start, end, "older servers (before 2.4.64) write it unescaped, and a client can choose what it holds",
			"leave it out of this log")
	case "o", "e", "C", "n", "f", "L", "R", "^ti", "^to":
	case "(":
		return nil, m.fail(start, end, "this is a format of gunicorn's, whose values are not escaped as Apache's are",
			`have it write its default, with a dash for %(u)s, and give format = "gunicorn"`)
	default:
		return nil, m.fail(start, end, "Apache has no such directive", "")
	}
	return text, nil
}

// apacheAddress tells the connection's address (%{c}a) from the one that
// mod_remoteip may have put in its place; %h can be a host name.
func apacheAddress(item apacheItem) *variable {
	v := &variable{role: rolePeer, word: true, class: addressClass()}
	switch {
	case item.arg == "c" && item.letter == "a":
		v.rank, v.direct = 4, true
	case item.arg == "c":
		v.rank, v.direct = 3, true
	case item.letter == "a":
		v.rank = 2
	default:
		v.rank = 1
	}
	return v
}

// apacheText is the class of what a client writes: httpd escapes quotes and
// backslashes with a backslash, and all that is not printable.
func apacheText() class {
	return class{set: byteSet{}.plus(' ', '~').without(`"`), escaped: true}
}
