package config

import (
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/tailban/tailban/parser"
)

// Syslog is a socket that receives syslog messages.
type Syslog struct {
	Network   string         // "unix", "udp" or "tcp"
	Address   string         // absolute path, or address and port
	FromUsers []string       // names or numbers of the users who may send; only and always with "unix"
	AllowFrom []netip.Prefix // networks that may send, never with "unix"; none: only this machine
}

// maxSocketPath is what sun_path of sockaddr_un holds, with a NUL behind it
// (unix(7)).
const maxSocketPath = 107

// sourceKeys are those that say where lines come from.
var sourceKeys = [...]string{"files", "journal", "syslog", "stdin", "fifo"}

// readSource reads where the lines of a log come from.
func readSource(t named, l *Log, owners map[string]string) {
	var given []string
	one := func(key string, read func(n node)) {
		n, ok := t.get(key)
		switch {
		case !ok:
		case len(given) > 0:
			n.bad("this log has %s already: a log has one of %s", given[0], strings.Join(sourceKeys[:], ", "))
		default:
			given = append(given, key)
			read(n)
		}
	}
	one("files", func(n node) { l.Files = n.files(t.name, owners) })
	one("journal", func(n node) { l.Journal = n.units(t.name, owners) })
	one("syslog", func(n node) { l.Syslog = n.socket(t.name, owners) })
	one("stdin", func(n node) {
		if yes, ok := n.flag(); ok && !yes {
			n.bad("can only be true: leave it out")
		} else if ok {
			l.Stdin = n.own("stdin", t.name, owners)
		}
	})
	one("fifo", func(n node) {
		if s, ok := n.text(); ok && n.checkPath(s) && n.own(filepath.Clean(s), t.name, owners) {
			l.FIFO = filepath.Clean(s)
		}
	})
	if len(given) == 0 {
		t.missing("files", "required: an absolute path, or a list of them; or else one of journal, syslog, stdin and fifo")
	}
	readSenders(t, l, l.Syslog == nil && len(given) > 0 && given[0] == "syslog")
}

// readSenders reads who may send to a socket. unknown says that it is wrong, so
// that which of the keys belong to it can't be told.
func readSenders(t named, l *Log, unknown bool) {
	users, hasUsers := t.get("from_users")
	networks, hasNetworks := t.get("allow_from")
	s := l.Syslog
	unix := s != nil && s.Network == "unix"
	if unknown {
		return
	}
	switch {
	case hasUsers && !unix:
		users.bad(`is for syslog = "unix:…" only: the kernel doesn't tell who sends otherwise`)
	case hasUsers:
		s.FromUsers = users.nonEmptyTexts(node.checkUser)
	case unix:
		t.missing("from_users", `required with a unix socket: the users whose messages count, like ["www-data"]; any user of this machine could have anybody banned otherwise`)
	}
	switch {
	case hasNetworks && (s == nil || unix):
		networks.bad(`is for syslog = "udp:…" and "tcp:…" only`)
	case hasNetworks:
		s.AllowFrom = networks.networks()
	case s != nil && !unix && !s.isLocal():
		t.missing("allow_from", "required, as %s can be reached from elsewhere: the networks whose messages count", s.Address)
	}
}

// units reads names of systemd units.
func (n node) units(log string, owners map[string]string) []string {
	return n.nonEmptyTexts(func(item node, s string) bool {
		switch stem, suffix := s, filepath.Ext(s); {
		case strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(unitChars, r) }):
			item.bad(`must be the name of a unit, like "nginx.service"`)
		case suffix == "" || stem == suffix:
			item.bad("must be the whole name of a unit: is %q meant?", strings.TrimSuffix(s, ".")+".service")
		case strings.HasSuffix(stem, "@"+suffix):
			item.bad("is a template: name its instances, like %q", strings.TrimSuffix(s, suffix)+"1"+suffix)
		default:
			return item.own("journal:"+s, log, owners)
		}
		return false
	})
}

// unitChars are those of systemd.unit(5).
const unitChars = `abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\@`

// socket reads where syslog messages are received.
func (n node) socket(log string, owners map[string]string) *Syslog {
	text, ok := n.text()
	if !ok {
		return nil
	}
	network, address, _ := strings.Cut(text, ":")
	s := &Syslog{Network: network, Address: address}
	switch network {
	case "unix":
		if !n.checkPath(address) {
			return nil
		}
		if s.Address = filepath.Clean(address); len(s.Address) > maxSocketPath {
			n.bad("has too long a path: %d bytes at most", maxSocketPath)
			return nil
		}
	case "udp", "tcp":
		a, err := netip.ParseAddrPort(address)
		if err != nil || a.Port() == 0 || a.Addr().Zone() != "" {
			n.bad(`must have an address and a port, like "%s:127.0.0.1:514" or "%[1]s:[::1]:514"`, network)
			return nil
		}
		s.Address = netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
	default:
		n.bad(`must be like "unix:/run/tailban-log/nginx.sock", "udp:127.0.0.1:514" or "tcp:127.0.0.1:514"`)
		return nil
	}
	if !n.own(s.String(), log, owners) {
		return nil
	}
	return s
}

// checkPath accepts the absolute path of something that is no folder.
func (n node) checkPath(s string) bool {
	if !filepath.IsAbs(s) || strings.HasSuffix(s, "/") {
		n.bad("must be an absolute path")
		return false
	}
	return true
}

// checkUser accepts what can be the name or number of a user.
func (n node) checkUser(s string) bool {
	if strings.ContainsAny(s, ": /\t") || strings.HasPrefix(s, "-") {
		n.bad(`must be the name or the number of a user, like "www-data"`)
		return false
	}
	return true
}

// networks reads addresses and ranges.
func (n node) networks() []netip.Prefix {
	var out []netip.Prefix
	n.nonEmptyTexts(func(item node, s string) bool {
		p, ok := parser.ParsePrefix(s)
		if !ok {
			item.badAddress(s, `must be an address or a range like "10.0.0.0/8"`)
			return false
		}
		if ok = item.checkPrefix(p); ok {
			out = append(out, p)
		}
		return ok
	})
	return out
}

// isLocal reports whether only this machine can reach the socket.
func (s *Syslog) isLocal() bool {
	if s.Network == "unix" {
		return true
	}
	a, err := netip.ParseAddrPort(s.Address)
	return err == nil && a.Addr().IsLoopback()
}

// String returns the socket as the configuration names it.
func (s *Syslog) String() string { return s.Network + ":" + s.Address }

// Source says in a word or two where lines come from that come from no files.
func (l *Log) Source() string {
	switch {
	case len(l.Journal) > 0:
		return "the journal of " + strings.Join(l.Journal, ", ")
	case l.Syslog != nil:
		return "syslog messages at " + l.Syslog.String()
	case l.Stdin:
		return "standard input"
	case l.FIFO != "":
		return "the named pipe " + l.FIFO
	}
	return ""
}

// warnShared is about files that another log names outright: these are read for
// that one only.
func warnShared(doc *document, c *Config, l *Log) {
	for n, pattern := range l.Files {
		for i := range c.Logs {
			other := &c.Logs[i]
			for _, file := range other.Files {
				if other.Name == l.Name || file == pattern || strings.ContainsAny(file, `*?[`) {
					continue // a pattern names nothing outright: the first log of the two has what both match
				}
				if ok, _ := filepath.Match(pattern, file); ok {
					doc.warn(keyPath("logs", l.Name, "files").elem(n), "%s is also in logs.%s, which names it: for this log it is not read, "+
						"and the daemon says that it is not well: narrow the pattern", file, other.Name)
				}
			}
		}
	}
}

// warnFiles is about paths that can't lead to a log, or not to those meant.
func warnFiles(doc *document, l *Log) {
	for n, pattern := range l.Files {
		at := keyPath("logs", l.Name, "files").elem(n)
		switch ext := filepath.Ext(pattern); ext {
		case ".gz", ".bz2", ".xz", ".zst":
			doc.warn(at, "compressed files (%s) are never followed: name the log that they were made of; tailban replay reads those of gzip", ext)
		}
		if strings.Contains(pattern, "**") {
			doc.warn(at, "** is no more than *, and leads into no folders below: write a pattern for each depth, like /srv/*/*.log")
		}
	}
}

// warnSource is about sockets by which strangers can have others banned.
func warnSource(doc *document, l *Log) {
	s := l.Syslog
	if s == nil || s.Network == "unix" {
		return
	}
	at := keyPath("logs", l.Name, "syslog")
	switch {
	case s.isLocal():
		doc.warn(at, "any user and any program of this machine can send there, and have anybody banned: a unix socket with from_users is safer")
	case s.Network == "udp":
		doc.warn(at, "a sender of UDP can give a false address: allow_from keeps nobody out who can reach the port, and he can have anybody banned; tcp is safer")
	}
}
