package guard

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"github.com/tailban/tailban/parser"
)

// login is a session that has been authenticated.
type login struct {
	from netip.Addr
	pid  int // of the process that holds it; above 0
}

// readSession reads a file of /run/systemd/sessions, as sd-login(3) does: lines
// of KEY=VALUE, which session_save of systemd's src/login/logind-session.c
// writes. systemd 252 escapes values that could hold anything as in C, newer
// ones quote them as for a shell; an address needs neither. sshd asks PAM, and
// so logind, for a session when it has authenticated the user; logind makes none
// for others than root. These count:
//
//   - REMOTE=1, with an address as REMOTE_HOST. With "UseDNS yes" sshd gives a
//     name instead, and whoever answers for the address can choose that.
//   - SERVICE, the name of the PAM service, begins with "sshd". Others let
//     people in as well, an FTP server for example, but no administrators.
//   - STATE "opening", "online" or "active". A session that is "closing" has
//     ended, and some process of it goes on.
//   - CLASS for people ("user", "user-early", "user-light") or for what runs
//     without a terminal ("background", "background-light"): no greeter, lock
//     screen or manager.
//   - LEADER, the process that holds it. Whether that is alive is the caller's
//     to find out: without logind its files stay.
//
// systemd 252 writes some other values as they come (DISPLAY). So if one of
// these is there twice nothing is believed. Nor is a last line without its end.
func readSession(data []byte) (login, bool) {
	v := map[string]string{}
	for line := range bytes.Lines(data) {
		whole, ended := bytes.CutSuffix(line, []byte("\n"))
		key, value, _ := strings.Cut(string(whole), "=")
		switch key {
		case "REMOTE", "REMOTE_HOST", "SERVICE", "STATE", "CLASS", "LEADER":
			if _, twice := v[key]; twice || !ended {
				return login{}, false
			}
			v[key] = unquote(value)
		}
	}
	switch v["STATE"] {
	case "opening", "online", "active":
	default:
		return login{}, false
	}
	if v["REMOTE"] != "1" || !strings.HasPrefix(v["SERVICE"], "sshd") || !forPeople(v["CLASS"]) {
		return login{}, false
	}
	from, ok := parser.ParseAddr([]byte(v["REMOTE_HOST"]))
	pid, err := strconv.ParseInt(v["LEADER"], 10, 32)
	if !ok || err != nil || pid <= 0 {
		return login{}, false
	}
	return login{from, int(pid)}, true
}

func forPeople(class string) bool {
	kind, _, _ := strings.Cut(class, "-")
	return kind == "user" || kind == "background"
}

// unquote takes quotes off that hold nothing to be unescaped.
func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}
