package guard

import (
	"strings"
	"testing"
)

// sessionFile is what logind of systemd 252 writes for a session of sshd's.
const sessionFile = `# This is private data. Do not parse.
UID=1000
USER=ann
ACTIVE=1
IS_DISPLAY=1
STATE=active
REMOTE=1
TYPE=tty
ORIGINAL_TYPE=tty
CLASS=user
SCOPE=session-3.scope
FIFO=/run/systemd/sessions/3.ref
TTY=pts/0
TTY_VALIDITY=from-utmp
REMOTE_HOST=203.0.113.5
SERVICE=sshd
POSITION=0
LEADER=4711
AUDIT=3
REALTIME=1700000000000000
MONOTONIC=5000000
`

func TestReadSession(t *testing.T) {
	for _, tt := range []struct{ name, old, now, want string }{
		{"of sshd", "", "", "203.0.113.5"},
		{"IPv6", "203.0.113.5", "2001:db8:1::5", "2001:db8:1::5"},
		{"mapped", "203.0.113.5", "::ffff:203.0.113.6", "203.0.113.6"},
		{"scoped", "203.0.113.5", "fe80::5%eth0", "fe80::5"},
		{"quoted", "203.0.113.5", `"2001:db8:1::5"`, "2001:db8:1::5"},
		{"service quoted", "=sshd", "='sshd'", "203.0.113.5"},
		{"a quote alone", "203.0.113.5", `"`, ""},
		{"UseDNS: a name", "203.0.113.5", "client.example.net", ""},
		{"a name that is escaped", "203.0.113.5", `203.0.113.5\n`, ""},
		{"no host", "REMOTE_HOST=203.0.113.5\n", "", ""},
		{"local", "REMOTE=1", "REMOTE=0", ""},
		{"no word of remote", "REMOTE=1\n", "", ""},
		{"being set up", "STATE=active", "STATE=opening", "203.0.113.5"},
		{"in the background", "STATE=active", "STATE=online", "203.0.113.5"},
		{"over", "STATE=active", "STATE=closing", ""},
		{"a state nobody knows", "STATE=active", "STATE=lying", ""},
		{"no state", "STATE=active\n", "", ""},
		{"FTP", "=sshd", "=vsftpd", ""},
		{"login(1)", "=sshd", "=remote", ""},
		{"no service", "SERVICE=sshd\n", "", ""},
		{"PAMServiceName", "=sshd", "=sshd-admin", "203.0.113.5"},
		{"root, from systemd 256 on", "=user\n", "=user-early\n", "203.0.113.5"},
		{"without a terminal", "=user\n", "=background-light\n", "203.0.113.5"},
		{"greeter", "=user\n", "=greeter\n", ""},
		{"manager", "=user\n", "=manager\n", ""},
		{"a class that begins like one", "=user\n", "=username\n", ""},
		{"no class", "CLASS=user\n", "", ""},
		{"no leader", "LEADER=4711\n", "", ""},
		{"leader 0", "=4711", "=0", ""},
		{"leader below 0", "=4711", "=-1", ""},
		{"leader too large", "=4711", "=4294967297", ""},
		{"another host smuggled in", "TTY=pts/0", "TTY=pts/0\nREMOTE_HOST=198.51.100.1", ""},
		{"smuggled in with an empty one before", "REMOTE_HOST=", "REMOTE_HOST=\nREMOTE_HOST=", ""},
		{"smuggled in where it isn't remote", "REMOTE=1", "REMOTE=0\nREMOTE=1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(sessionFile, tt.old) {
				t.Fatalf("no %q to replace", tt.old)
			}
			text := strings.Replace(sessionFile, tt.old, tt.now, 1)
			got := ""
			if l, ok := readSession([]byte(text)); ok {
				got = l.from.String()
				if l.pid != 4711 {
					t.Errorf("leader %d", l.pid)
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Of a file that is cut off anywhere nothing wrong is read.
func TestReadSessionCutOff(t *testing.T) {
	for n := range len(sessionFile) {
		l, ok := readSession([]byte(sessionFile[:n]))
		if whole := strings.Contains(sessionFile[:n], "LEADER=4711\n"); ok != whole || ok && l.from.String() != "203.0.113.5" {
			t.Errorf("of %d bytes: %v, %t", n, l, ok)
		}
	}
}

func FuzzSession(f *testing.F) {
	f.Add([]byte(sessionFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, ok := readSession(data)
		if ok && (!l.from.IsValid() || l.from.Zone() != "" || l.from.Is4In6() || l.pid <= 0) {
			t.Errorf("got %+v", l)
		}
		if ok && strings.Count("\n"+string(data), "\nREMOTE_HOST=") != 1 {
			t.Errorf("got %+v of several", l)
		}
	})
}
