package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/tailban/tailban/internal/netlab"
	"github.com/tailban/tailban/internal/syncbuf"
)

// nginxConf is for a site behind Cloudflare; its last field is who Cloudflare says
// that it is. There is one process, which can't outlive its parent.
const nginxConf = `daemon off;
master_process off;
user root;
pid %[1]s/nginx.pid;
error_log stderr;
events { worker_connections 512; }
http {
	log_format main '$remote_addr - $remote_user [$time_local] "$request" '
	                '$status $body_bytes_sent "$http_referer" '
	                '"$http_user_agent" "$http_cf_connecting_ip"';
	access_log %[2]s main;
	client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3;
	uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
	server { listen 80; location / { return 200 "hello\n"; } }
}
`

// findNginx says where nginx is. An ordinary user's PATH may not have its folder.
func findNginx() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("this shows a real nginx, and there is none here\ndemo: hint: sudo apt install nginx-light")
}

// startNginx runs nginx in a namespace, with a folder for what it needs, and waits
// until it listens.
func startNginx(ctx context.Context, ns *netlab.NS, dir string) (stop func(), err error) {
	bin, err := findNginx()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, logPath), 0o644); err != nil {
		return nil, err
	}
	var said syncbuf.Buffer
	cmd := exec.CommandContext(ctx, bin, "-p", dir, "-e", "stderr", "-c", conf)
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := ns.Start(cmd); err != nil {
		return nil, err
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	dial := ns.Dialer()
	err = waitFor(ctx, 5*time.Second, func() bool {
		c, err := dial(ctx, "tcp", "127.0.0.1:80")
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
	if err != nil {
		stop()
		return nil, fmt.Errorf("nginx does not listen: %w\n%s", err, said.String())
	}
	return stop, nil
}
