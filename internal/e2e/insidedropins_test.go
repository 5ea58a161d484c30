package e2e

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// dropInConfig is what the drop-ins of docs/service.md are for.
const dropInConfig = `
[logs.home]
files = "/home/shop/logs/access.log"
[logs.docker]
files     = "/var/lib/docker/containers/*/*-json.log"
container = "docker"
[actions.router]
type  = "command"
ban   = ["/usr/local/lib/router-ban", "{prefix}"]
unban = ["/usr/local/lib/router-ban", "{prefix}"]
[notify.chat]
format   = "slack"
url_file = "/etc/tailban/chat-url"
`

// dropInFiles are what that needs, with permissions as they are usual.
const dropInFiles = `set -e
umask 077
mkdir -p /home/shop/logs
chgrp adm /home/shop/logs && chmod 750 /home/shop/logs
: >/home/shop/logs/access.log
chgrp adm /home/shop/logs/access.log && chmod 640 /home/shop/logs/access.log
mkdir -p /var/lib/docker/containers/0a1b
: >/var/lib/docker/containers/0a1b/0a1b-json.log
echo secret >/etc/tailban/router-key
echo https://chat.example.net/secret >/etc/tailban/chat-url
chown root:tailban /etc/tailban/chat-url
chmod 640 /etc/tailban/chat-url
mkdir -p /usr/local/lib /var/lib/router-bans
chown tailban /var/lib/router-bans
cat >/usr/local/lib/router-ban <<'SH'
#!/bin/sh
test -r /run/credentials/tailban.service/router-key && echo "$1" >>/var/lib/router-bans/list
SH
chmod 755 /usr/local/lib /usr/local/lib/router-ban
mkdir -p /etc/systemd/system/tailban.service.d
cp /drop-ins/*.conf /etc/systemd/system/tailban.service.d
systemctl daemon-reload
`

// dropIns: those of the documentation, all together, do what they are for.
func (s *service) dropIns() {
	const path = "/etc/tailban/jails.toml"
	plain, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, append(plain, dropInConfig...), 0o644); err != nil {
		s.Fatal(err)
	}
	s.run("/bin/sh", "-c", dropInFiles)
	if out := s.run("systemd-analyze", "verify", "tailban.service"); strings.Contains(out, "tailban") {
		s.Errorf("systemd says of the drop-ins: %s", out)
	}
	s.run("systemctl", "restart", "tailban.service")
	s.waitHeld(s.floods("/home/shop/logs/access.log"))
	s.clients++
	client := fmt.Sprintf("203.0.113.%d", s.clients)
	line := fmt.Sprintf(`{"log":"%s - - [%s] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n","stream":"stdout","time":"2026-01-01T00:00:00Z"}`+"\n",
		client, time.Now().Format("02/Jan/2006:15:04:05 -0700"))
	s.append("/var/lib/docker/containers/0a1b/0a1b-json.log", strings.Repeat(line, 3))
	s.waitHeld(client)
	s.wait("the program to have been run", func() bool {
		bans, _ := os.ReadFile("/var/lib/router-bans/list")
		return strings.Contains(string(bans), client+"/32\n")
	})
	s.run("/usr/local/bin/tailban", "status", "--check")
	if err := os.WriteFile(path, plain, 0o644); err != nil {
		s.Fatal(err)
	}
	s.run("/bin/sh", "-c", "cd /etc/systemd/system/tailban.service.d && rm home.conf docker.conf programs.conf")
}
