package config

import (
	"path/filepath"
	"strings"
)

// readLogs reads the [logs.NAME] tables. names are those of the bad ones,
// too.
func readLogs(top *section) (logs []Log, names []string) {
	tables, names := top.group("logs", "required: add a table like [logs.nginx] with the files to follow")
	owners := map[string]string{}
	for _, t := range tables {
		l := Log{Name: t.name, Format: DefaultFormat, MaxLine: DefaultMaxLine, MaxFiles: DefaultMaxFiles}
		readSource(t, &l, owners)
		readFormat(t, &l)
		if n, ok := t.get("max_line"); ok {
			size, _ := n.size(1<<10, 16<<20)
			l.MaxLine = int(size)
		}
		readFollow(t, &l)
		if n, ok := t.get("users_checked"); ok {
			l.UsersChecked, _ = n.flag()
		}
		if n, ok := t.get("after_unparsed"); ok {
			what, _ := n.oneOf("count", "skip")
			l.SkipAfterUnparsed = what == "skip"
		}
		t.finish()
		logs = append(logs, l)
	}
	return logs, names
}

// checkPeers refuses a log that doesn't say whose its addresses are, where there
// are proxies whose header the server may have believed.
func checkPeers(doc *document, c *Config) {
	for _, l := range c.Logs {
		if l.traits.HeaderAsPeer && !l.told && len(c.TrustedProxies) > 0 {
			doc.bad(keyPath("logs", l.Name, "format"), "format %q has no address of the connection: behind a proxy it has what the header says, "+
				`which anybody writes if the server trusts anybody; log JSON (format = "traefik"), or say peer = "connection" or "rewritten"`, l.Format)
		}
	}
}

// readFollow reads how files are followed.
func readFollow(t named, l *Log) {
	if n, ok := t.get("from"); ok {
		where, _ := n.oneOf("end", "start")
		l.FromStart = where == "start"
	}
	if n, ok := t.get("max_files"); ok {
		l.MaxFiles, _ = n.whole(1, 1<<20)
	}
	if n, ok := t.get("allow_insecure"); ok {
		l.AllowInsecure, _ = n.flag()
	}
	if n, ok := t.get("container"); ok {
		how, _ := n.oneOf("docker", "cri")
		l.Container = how
	}
}

// files reads paths and patterns. owners says which log has named a path, or
// another place of lines: one that two logs read would count every line twice.
func (n node) files(log string, owners map[string]string) []string {
	var out []string
	n.nonEmptyTexts(func(item node, s string) bool {
		if !item.checkFile(s) {
			return false
		}
		file := filepath.Clean(s)
		if !item.own(file, log, owners) {
			return false
		}
		out = append(out, file)
		return true
	})
	return out
}

// own notes that a log reads something, unless one does already.
func (n node) own(what, log string, owners map[string]string) bool {
	switch owner, taken := owners[what]; {
	case taken && owner == log:
		n.bad("is listed twice")
		return false
	case taken:
		n.bad("is also in logs.%s: every line would count twice", owner)
		return false
	}
	owners[what] = log
	return true
}

func (n node) checkFile(s string) bool {
	switch _, err := filepath.Match(s, ""); {
	case !filepath.IsAbs(s):
		n.bad("must be an absolute path")
	case strings.HasSuffix(s, "/"):
		n.bad(`must name files, not a folder: is "%s*.log" meant?`, s)
	case err != nil:
		n.bad(`is no valid pattern: "[" begins a list of characters that "]" ends, "\\" takes the next one literally`)
	default:
		return true
	}
	return false
}

// nonEmptyTexts is texts for lists that say nothing when empty.
func (n node) nonEmptyTexts(check func(item node, s string) bool) []string {
	if len(n.items()) == 0 {
		n.bad("must not be empty")
	}
	return n.texts(check)
}
