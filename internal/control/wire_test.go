package control

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// get and post are requests after which the connection ends.
func get(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: tailban\r\nConnection: close\r\n\r\n"
}

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: tailban\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// listening is the directory of a control socket that takes connections and
// never answers.
func listening(t *testing.T) string {
	t.Helper()
	dir := openTempDir(t)
	l, err := net.Listen("unix", filepath.Join(dir, ControlSocket))
	check(t, err)
	t.Cleanup(func() { l.Close() })
	return dir
}

// answering is the directory of a control socket that gives the same answer to
// the first request of each connection, and ends it.
func answering(t *testing.T, text string) string {
	t.Helper()
	dir := openTempDir(t)
	l, err := net.Listen("unix", filepath.Join(dir, ControlSocket))
	check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				conn.Read(make([]byte, 64<<10))
				io.WriteString(conn, text)
			}()
		}
	}()
	return dir
}
