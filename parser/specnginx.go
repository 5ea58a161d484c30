package parser

import "strings"

// nginxEscape is the escape= parameter of log_format.
type nginxEscape uint8

const (
	// Quotes, backslashes, control bytes and all above 126 become \xHH.
	escapeDefault nginxEscape = iota
	// Quotes and backslashes get a backslash, control bytes become \n and
	// the like or \u00HH; bytes above 126 stay.
	escapeJSON
	// Nothing is escaped.
	escapeNone
)

// argsPart says which part of a query a variable of nginx's is.
type argsPart uint8

const (
	argsMark  argsPart = 1 << iota // $is_args: the question mark, if there is a query
	argsQuery                      // $args
	argsDash                       // no query is written as "-", and the question mark as nothing
)

// parseNginxDirective reads "log_format NAME …;" from behind its first word.
func parseNginxDirective(spec string, from int) (*template, error) {
	for from < len(spec) && isSpace(spec[from]) {
		from++
	}
	end := from
	for end < len(spec) && !isSpace(spec[end]) && spec[end] != ';' {
		end++
	}
	if end == from || spec[from] == '\'' || spec[from] == '"' || spec[from] == '$' {
		return nil, &SpecError{Offset: from, Msg: "log_format without a name", Hint: "write log_format NAME '…';"}
	}
	return parseNginxArgs(spec, end)
}

// parseNginxArgs reads what follows the name: escape=…, then strings, which
// nginx joins with nothing between.
func parseNginxArgs(spec string, from int) (*template, error) {
	m, escape := new(mapped), escapeDefault
	first := true
	for i := from; ; {
		for i < len(spec) && isSpace(spec[i]) {
			i++
		}
		if i == len(spec) || spec[i] == ';' {
			if i < len(spec) && strings.TrimSpace(spec[i+1:]) != "" {
				return nil, &SpecError{Offset: i + 1, Msg: "text behind the format's semicolon", Hint: "give one log_format only"}
			}
			break
		}
		if spec[i] == '#' {
			if n := strings.IndexByte(spec[i:], '\n'); n >= 0 {
				i += n
			} else {
				i = len(spec)
			}
			continue
		}
		if first {
			first = false
			if e, n, err := nginxEscapeParam(spec, i); err != nil {
				return nil, err
			} else if n > 0 {
				escape, i = e, i+n
				continue
			}
		}
		next, err := m.nginxToken(spec, i)
		if err != nil {
			return nil, err
		}
		i = next
	}
	return parseNginx(m, escape, len(spec))
}

// nginxToken appends the word or quoted string at spec[i:], undoing nginx's
// quoting, and returns where it ends.
func (m *mapped) nginxToken(spec string, i int) (int, error) {
	start, quote := i, byte(0)
	if spec[i] == '\'' || spec[i] == '"' {
		quote = spec[i]
		i++
	}
	for ; i < len(spec); i++ {
		c := spec[i]
		switch {
		case c == '\\' && i+1 < len(spec):
			if j := strings.IndexByte(`"'\ trn`, spec[i+1]); j >= 0 {
				m.add("\"'\\ \t\r\n"[j], i)
				i++
				continue
			}
			m.add(c, i)
		case quote != 0 && c == quote:
			return i + 1, nil
		case quote == 0 && (isSpace(c) || c == ';'):
			return i, nil
		default:
			m.add(c, i)
		}
	}
	if quote != 0 {
		return 0, &SpecError{Offset: start, Text: string(quote), Msg: "this quote is never closed"}
	}
	return i, nil
}

// parseNginxBare reads a format without quoting, perhaps behind "escape=…".
func parseNginxBare(spec string, from, to int) (*template, error) {
	escape, n, err := nginxEscapeParam(spec, from)
	if err != nil {
		return nil, err
	}
	from += n
	for n > 0 && from < to && isSpace(spec[from]) {
		from++
	}
	return parseNginx(mapText(spec, from, to), escape, len(spec))
}

// nginxEscapeParam reads "escape=…" at spec[i:]; n is its length, 0 if there
// is none.
func nginxEscapeParam(spec string, i int) (e nginxEscape, n int, err error) {
	rest := spec[i:]
	if !strings.HasPrefix(rest, "escape=") {
		return 0, 0, nil
	}
	if end := strings.IndexAny(rest, " \t\r\n;"); end >= 0 {
		rest = rest[:end]
	}
	switch rest[len("escape="):] {
	case "default":
		return escapeDefault, len(rest), nil
	case "json":
		return escapeJSON, len(rest), nil
	case "none":
		return escapeNone, len(rest), nil
	}
	return 0, 0, &SpecError{Offset: i, Text: rest, Msg: "no such escaping", Hint: "nginx knows default, json and none"}
}

// parseNginx finds the variables in a format.
func parseNginx(m *mapped, escape nginxEscape, size int) (*template, error) {
	b := templateBuilder{template: template{bare: escape == escapeNone}}
	for i := 0; i < len(m.text); {
		if m.text[i] != '$' {
			b.literal(m.text[i])
			i++
			continue
		}
		start, braces := i, i+1 < len(m.text) && m.text[i+1] == '{'
		i++
		if braces {
			i++
		}
		from := i
		for i < len(m.text) && isName(m.text[i]) {
			i++
		}
		name := string(m.text[from:i])
		if name == "" {
			return nil, m.fail(start, i+1, "a dollar sign without a variable's name", "nginx has no way to log a plain $")
		}
		if braces {
			if i == len(m.text) || m.text[i] != '}' {
				return nil, m.fail(start, i, "this brace is never closed", "write ${"+name+"}")
			}
			i++
		}
		v := nginxVariable(strings.ToLower(name), escape)
		v.text, v.offset = string(m.text[start:i]), m.offset(start)
		if escape == escapeNone && v.client && !nginxOneLine(strings.ToLower(name)) {
			return nil, v.fail("with escape=none it can hold a line feed, and so a client can write whole lines of this log",
				"use escape=default, or leave it out")
		}
		if err := b.variable(v); err != nil {
			return nil, err
		}
	}
	return b.done(m, size)
}

// nginxOneLine reports whether a variable that clients write holds no line
// feed: pieces of the request as they were sent. What nginx decodes ($uri,
// the user of Basic authentication) can, and so can what is not known here.
func nginxOneLine(name string) bool {
	switch name {
	case "request", "request_uri", "args", "query_string", "host", "proxy_add_x_forwarded_for":
		return true
	}
	for _, prefix := range []string{"http_", "arg_", "cookie_", "sent_http_", "sent_trailer_", "upstream_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// nginxVariable returns what is known of a variable; an unknown one is
// skipped and may hold anything.
func nginxVariable(name string, escape nginxEscape) *variable {
	text := &variable{class: escape.text(), client: true}
	switch name {
	case "remote_addr":
		return &variable{role: rolePeer, rank: 1, word: true, class: addressClass()}
	case "realip_remote_addr":
		return &variable{role: rolePeer, rank: 2, direct: true, word: true, class: addressClass()}
	case "time_local":
		return timeVariable(clfForm())
	case "time_iso8601":
		return timeVariable(isoForm())
	case "msec":
		return timeVariable(epochForm(1e9))
	case "request":
		text.role = roleRequest
	case "request_method":
		// nginx refuses methods with anything else.
		return &variable{role: roleMethod, redirected: true, word: true, class: class{set: byteSet{}.plus('A', 'Z').and("_-")}}
	case "request_uri":
		text.role, text.rank, text.target = roleTarget, 2, true
	case "uri", "document_uri":
		text.role, text.rank, text.target, text.decoded = roleTarget, 1, true, true
		text.redirected = true
	case "is_args":
		text.target, text.args = true, argsMark
	case "args", "query_string":
		text.target, text.args = true, argsQuery
		if escape == escapeDefault {
			text.args |= argsDash
		}
	case "server_protocol":
		return &variable{role: roleProto, word: true, class: protocolClass()}
	case "status":
		return &variable{role: roleStatus, word: true, class: numberClass()}
	case "body_bytes_sent":
		return &variable{role: roleBytes, rank: 2, word: true, class: numberClass()}
	case "bytes_sent":
		return &variable{role: roleBytes, rank: 1, word: true, class: numberClass()}
	case "remote_user":
		text.role = roleUser
	case "host":
		// Since 1.21.1 nginx refuses hosts with control bytes or blanks.
		text.role, text.word = roleHost, true
		text.class.set = text.class.set.without("\x7f /").withoutControls()
	case "server_name":
		return &variable{role: roleHost, word: true, class: wordClass()}
	case "proxy_add_x_forwarded_for":
		text.header = "x_forwarded_for"
	case "remote_port", "request_time", "request_length", "connection", "connection_requests",
		"connection_time", "gzip_ratio", "server_port", "pid", "proxy_protocol_port",
		"realip_remote_port", "proxy_protocol_server_port":
		return &variable{word: true, class: numberClass()}
	case "server_addr", "proxy_protocol_addr", "proxy_protocol_server_addr":
		return &variable{word: true, class: addressClass()}
	case "scheme", "ssl_protocol", "ssl_cipher", "hostname", "nginx_version", "request_id",
		"request_completion", "https", "http2", "http3", "upstream_cache_status", "ssl_session_reused", "pipe":
		return &variable{word: true, class: wordClass()}
	}
	if header, ok := strings.CutPrefix(name, "http_"); ok {
		text.setHeader(header)
	}
	return text
}

// setHeader sets the role of a request header, named in lower case with "_".
func (v *variable) setHeader(name string) {
	v.header = name
	switch name {
	case "referer":
		v.role = roleReferer
	case "user_agent":
		v.role = roleAgent
	case "host":
		v.role = roleHost
	}
}

// text returns the class of a value that a client writes.
func (e nginxEscape) text() class {
	switch e {
	case escapeJSON:
		return class{set: byteSet{}.plus(' ', 0xff).without(`"`), escaped: true}
	case escapeNone:
		return class{set: byteSet{}.plus(0, 0xff).without("\n")}
	}
	return class{set: byteSet{}.plus(' ', '~').without(`"`)}
}

func (s byteSet) withoutControls() byteSet {
	for c := byte(0); c < ' '; c++ {
		s = s.without(string(rune(c)))
	}
	return s
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func isName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}
